"""Where the search for each problem stands: solved, converged, or still to be searched, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from atoll import control, evaluation, function
from atoll.candidate import JSON
from atoll.mind import plan_evaluator
from atoll.mind.generations import GenerationClock

DONE = "done"  # what a step is advised of: the problems that are over, as the bits of a number
SATISFIED = "satisfied the judge"  # not "solved": that is for whoever knows the solutions to say


@dataclass(slots=True)
class ProblemState:
    """What is known of one problem.

    Attributes:
        best: Its best worldline so far.
        generation: In which that was found.
        steps: Steps that were taken for it.
        calls: What those bought of a model.
        tokens: And how long that was.
        usd: And what it cost.
        judged: Worldlines that were judged for it, each text once.
        reason: Why its search is over; empty while it goes on.
    """

    best: function.Function | None = None
    generation: int = 0
    iterations: int = 0
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    evaluated: set[str] = field(default_factory=set)
    reason: str = ""


class ProblemStatus:
    """Learns how each problem fares, tells every step which are over, and ends the run when all are.

    A search ends when a worldline satisfies the evaluator, when the best fitness has not risen for some generations,
    when an approved worldline hardly differs from the base, or with the last generation; which of them is stored.

    Args:
        rounds: How steps are counted.
        patience: Generations without a rise that end the search for a problem; 0: never.
        epsilon: An approved worldline that diverges less than this ends it; 0: never.
    """

    def __init__(self, clock: GenerationClock, *, patience: int = 3, epsilon: float = 0.0) -> None:
        self._clock, self._patience, self._epsilon = clock, patience, epsilon
        self.states = [ProblemState() for _ in range(clock.num_problems)]

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        done_bits = sum(1 << index for index, state in enumerate(self.states) if state.reason)
        return {DONE: f"{done_bits:x}"} if done_bits else {}

    def learn(self, result: function.IterationResult) -> None:
        position = self._clock.get_position(result.iteration)
        state, cost = self.states[position.problem], result.cost
        state.iterations += 1
        state.calls, state.usd = state.calls + cost.calls, state.usd + cost.usd
        state.tokens += cost.tokens_in + cost.tokens_out
        children = [fn for fn, _ in result.children]
        state.evaluated.update(str(fn.skeleton()) for fn in children if fn.evaluation is not None)
        best = plan_evaluator.find_best(children)
        if best is not None and (
            state.best is None or plan_evaluator.get_score(best) > plan_evaluator.get_score(state.best)
        ):
            state.best, state.generation = best, position.generation
        state.reason = state.reason or self._find_end_reason(state, position.generation, result.iteration)

    def _find_end_reason(self, state: ProblemState, generation: int, iteration: int) -> str:
        result = state.best.evaluation if state.best is not None else None
        position = self._clock.get_position(iteration)
        if plan_evaluator.is_solved(result):
            return f"{SATISFIED} in generation {state.generation + 1}"
        if result is not None and _is_approved(result) and result.metrics.get("divergence", 1.0) < self._epsilon:
            return f"an approved worldline diverges by less than {self._epsilon:g}"
        if not self._clock.is_generation_end(position):
            return ""
        if self._patience and generation - state.generation >= self._patience:
            return f"converged: no rise in {self._patience} generations"
        return f"{self._clock.num_gens} generations done" if generation + 1 >= self._clock.num_gens else ""

    def stop_rule(self, progress: control.RunProgress) -> str | None:
        """Ends the run when the search for every problem is over; told with the reasons."""
        if not all(state.reason for state in self.states):
            return None
        if len(self.states) == 1:
            return self.states[0].reason
        return f"all {len(self.states)} problems are over: {', '.join(count_reasons(self.states))}"


def _is_approved(result: evaluation.Evaluation) -> bool:
    return result.metrics.get("review_feedback", 0.0) > 0


def count_reasons(states: Sequence[ProblemState]) -> list[str]:
    """Returns the reasons without their numbers of generations, each with how often it was given."""
    reasons = [SATISFIED if state.reason.startswith(SATISFIED) else state.reason or "not over" for state in states]
    return [f"{reasons.count(reason)} {reason}" for reason in dict.fromkeys(reasons)]


def is_problem_done(advice: Mapping[str, JSON], problem: int) -> bool:
    """Says whether a step was advised that its problem is over."""
    done_bits = advice.get(DONE)
    return isinstance(done_bits, str) and bool(int(done_bits, 16) >> problem & 1)
