"""Where the search for each problem stands: solved, converged, or still to be searched, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from atoll import control, evaluation, function
from atoll.candidate import JSON
from atoll.mind import judge
from atoll.mind.rounds import Rounds

DONE = "done"  # what a step is advised of: the problems that are over, as the bits of a number
SATISFIED = "satisfied the judge"  # not "solved": that is for whoever knows the solutions to say


@dataclass(slots=True)
class State:
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
    steps: int = 0
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    judged: set[str] = field(default_factory=set)
    reason: str = ""


class Standing:
    """Learns how each problem fares, tells every step which are over, and ends the run when all are.

    A search ends when a worldline satisfies the evaluator, when the best fitness has not risen for some generations,
    when an approved worldline hardly differs from the base, or with the last generation; which of them is stored.

    Args:
        rounds: How steps are counted.
        patience: Generations without a rise that end the search for a problem; 0: never.
        epsilon: An approved worldline that diverges less than this ends it; 0: never.
    """

    def __init__(self, rounds: Rounds, *, patience: int = 3, epsilon: float = 0.0) -> None:
        self._rounds, self._patience, self._epsilon = rounds, patience, epsilon
        self.states = [State() for _ in range(rounds.num_problems)]

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        done = sum(1 << place for place, state in enumerate(self.states) if state.reason)
        return {DONE: f"{done:x}"} if done else {}

    def learn(self, outcome: function.Outcome) -> None:
        turn = self._rounds.turn(outcome.step)
        state, spent = self.states[turn.problem], outcome.spent
        state.steps += 1
        state.calls, state.usd = state.calls + spent.calls, state.usd + spent.usd
        state.tokens += spent.tokens_in + spent.tokens_out
        children = [fn for fn, _ in outcome.children]
        state.judged.update(str(fn.skeleton()) for fn in children if fn.evaluation is not None)
        best = judge.best_of(children)
        if best is not None and (state.best is None or judge.score_of(best) > judge.score_of(state.best)):
            state.best, state.generation = best, turn.generation
        state.reason = state.reason or self._why_over(state, turn.generation, outcome.step)

    def _why_over(self, state: State, generation: int, step: int) -> str:
        found = state.best.evaluation if state.best is not None else None
        turn = self._rounds.turn(step)
        if judge.is_solved(found):
            return f"{SATISFIED} in generation {state.generation + 1}"
        if found is not None and _is_approved(found) and found.metrics.get("divergence", 1.0) < self._epsilon:
            return f"an approved worldline diverges by less than {self._epsilon:g}"
        if not self._rounds.ends_generation(turn):
            return ""
        if self._patience and generation - state.generation >= self._patience:
            return f"converged: no rise in {self._patience} generations"
        return f"{self._rounds.num_gens} generations done" if generation + 1 >= self._rounds.num_gens else ""

    def stop_rule(self, now: control.Progress) -> str | None:
        """Ends the run when the search for every problem is over; told with the reasons."""
        if not all(state.reason for state in self.states):
            return None
        if len(self.states) == 1:
            return self.states[0].reason
        return f"all {len(self.states)} problems are over: {', '.join(counted(self.states))}"


def _is_approved(found: evaluation.Evaluation) -> bool:
    return found.metrics.get("review_feedback", 0.0) > 0


def counted(states: Sequence[State]) -> list[str]:
    """Returns the reasons without their numbers of generations, each with how often it was given."""
    kinds = [SATISFIED if state.reason.startswith(SATISFIED) else state.reason or "not over" for state in states]
    return [f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)]


def is_over(advice: Mapping[str, JSON], problem: int) -> bool:
    """Says whether a step was advised that its problem is over."""
    done = advice.get(DONE)
    return isinstance(done, str) and bool(int(done, 16) >> problem & 1)
