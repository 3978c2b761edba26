"""Status of the search for each problem: solved, converged or running."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from atoll import control, evaluation, function
from atoll.candidate import JSON
from atoll.mind import plan_evaluator
from atoll.mind.generations import GenerationClock

SECOND = "second"  # key of the advice: problems in their second stage, in the same form
DONE = "done"  # key of the advice: finished problems as bits of a hexadecimal number
OPTIMAL = "optimal"  # key of a candidate's metadata: who agrees that it is optimal
SATISFIED = "satisfied the evaluator"  # not "solved": only the grader knows the solutions


@dataclass(slots=True)
class ProblemState:
    """State of the search for one problem.

    Attributes:
        best: Best worldline so far.
        generation: Generation in which it was found.
        iterations: Iterations for this problem.
        calls: LLM calls.
        tokens: Tokens of these calls.
        usd: Cost of these calls.
        evaluated: Distinct texts that were evaluated.
        num_stale: Conversations in a row that made only known plans.
        reason: Why the search ended; empty while it runs.
        is_second_stage: Whether the first of two stages has ended without success.
    """

    best: function.Function | None = None
    generation: int = 0
    iterations: int = 0
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    evaluated: set[str] = field(default_factory=set)
    num_stale: int = 0
    reason: str = ""
    is_second_stage: bool = False


class ProblemStatus:
    """Tracks each problem, marks finished ones in the advice, and ends the run when all are finished.

    A search ends when a worldline satisfies the evaluator or is proven optimal, when the best fitness has not improved
    for some generations, when conversations repeat known plans, when an approved worldline hardly differs from the
    base, or after the last generation. The reason is stored.

    Args:
        clock: Maps iterations to problems and generations.
        patience: Generations without improvement until the search for a problem ends; 0 disables it.
        epsilon: An approved worldline with less divergence ends the search; 0 disables it.
        max_stale: Conversations in a row with only known plans that end the search; 0 disables it.
        num_first_gens: Generations of the first of two stages; 0 for one stage. A search that ends in the first stage
            without success continues in the second.
    """

    def __init__(
        self,
        clock: GenerationClock,
        *,
        patience: int = 3,
        epsilon: float = 0.0,
        max_stale: int = 0,
        num_first_gens: int = 0,
    ) -> None:
        self._clock, self._patience, self._epsilon, self._max_stale = clock, patience, epsilon, max_stale
        self._num_first_gens = num_first_gens
        self.states = [ProblemState() for _ in range(clock.num_problems)]

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        done_bits = sum(1 << index for index, state in enumerate(self.states) if state.reason)
        second_bits = sum(1 << index for index, state in enumerate(self.states) if state.is_second_stage)
        advice: dict[str, JSON] = {DONE: f"{done_bits:x}"} if done_bits else {}
        return advice | ({SECOND: f"{second_bits:x}"} if second_bits else {})

    def learn(self, result: function.IterationResult) -> None:
        position = self._clock.get_position(result.iteration)
        state, cost = self.states[position.problem], result.cost
        state.iterations += 1
        state.calls, state.usd = state.calls + cost.calls, state.usd + cost.usd
        state.tokens += cost.tokens_in + cost.tokens_out
        children = [fn for fn, _ in result.children]
        texts = {str(fn.skeleton()) for fn in children if fn.evaluation is not None}
        if texts:  # otherwise the LLM failed or wrote no plan
            state.num_stale = 0 if texts - state.evaluated else state.num_stale + 1
        state.evaluated |= texts
        best = plan_evaluator.find_best(children)
        if best is not None and (
            state.best is None or plan_evaluator.get_score(best) > plan_evaluator.get_score(state.best)
        ):
            state.best, state.generation = best, position.generation
        state.reason = state.reason or _find_proof(state, children) or self._find_success(state)
        reason = state.reason or self._find_end_reason(state, position.generation, result.iteration)
        if reason and not state.reason and self._num_first_gens and not state.is_second_stage:
            state.is_second_stage, state.generation, state.num_stale = True, position.generation, 0
        else:
            state.reason = reason

    def _find_success(self, state: ProblemState) -> str:
        result = state.best.evaluation if state.best is not None else None
        if plan_evaluator.is_solved(result):
            return f"{SATISFIED} in generation {state.generation + 1}"
        if result is not None and _is_approved(result) and result.metrics.get("divergence", 1.0) < self._epsilon:
            return f"an approved worldline diverges by less than {self._epsilon:g}"
        return ""

    def _find_end_reason(self, state: ProblemState, generation: int, iteration: int) -> str:
        position = self._clock.get_position(iteration)
        if self._max_stale and state.num_stale >= self._max_stale:
            return f"{self._max_stale} conversations in a row made no new plan"
        if not self._clock.is_generation_end(position):
            return ""
        if self._patience and generation - state.generation >= self._patience:
            return f"converged: no improvement in {self._patience} generations"
        is_first_stage = self._num_first_gens and not state.is_second_stage
        max_gens = self._num_first_gens if is_first_stage else self._clock.num_gens
        return f"{max_gens} generations done" if generation + 1 >= max_gens else ""

    def stop_rule(self, progress: control.RunProgress) -> str | None:
        """Ends the run when the search for every problem has ended. Returns the reasons."""
        if not all(state.reason for state in self.states):
            return None
        if len(self.states) == 1:
            return self.states[0].reason
        return f"all {len(self.states)} problems ended: {', '.join(count_reasons(self.states))}"


def _find_proof(state: ProblemState, children: Sequence[function.Function]) -> str:
    """Returns who agrees that the best worldline is optimal, as a reason; empty without such a claim."""
    for fn in children:
        agreed_by = fn.candidate.meta.get(OPTIMAL) if fn.candidate else None
        if agreed_by and state.best and plan_evaluator.get_score(fn) >= plan_evaluator.get_score(state.best):
            return f"optimal: {agreed_by} agrees"
    return ""


def _is_approved(result: evaluation.Evaluation) -> bool:
    return result.metrics.get("review_feedback", 0.0) > 0


def count_reasons(states: Sequence[ProblemState]) -> list[str]:
    """Returns each reason with its count, without generation numbers."""
    reasons = [SATISFIED if state.reason.startswith(SATISFIED) else state.reason or "not ended" for state in states]
    return [f"{reasons.count(reason)} {reason}" for reason in dict.fromkeys(reasons)]


def is_problem_done(advice: Mapping[str, JSON], problem: int) -> bool:
    """Returns whether the advice of an iteration marks its problem as finished."""
    return _has_bit(advice.get(DONE), problem)


def is_second_stage(advice: Mapping[str, JSON], problem: int) -> bool:
    """Returns whether the advice of an iteration says that the first stage of its problem has ended."""
    return _has_bit(advice.get(SECOND), problem)


def _has_bit(bits: JSON, index: int) -> bool:
    return isinstance(bits, str) and bool(int(bits, 16) >> index & 1)
