"""Course of a search: generations of islands and problems, migration, resets, and the status of each problem."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import fmean
from typing import NamedTuple

from atoll import archipelago, control, evaluation, function
from atoll.archipelago import Island, Migration, Reset
from atoll.candidate import JSON
from atoll.mind import plan_evaluator, population, worldline

type EliteSelector = Callable[[Sequence[function.Function], int, Sequence[str]], Sequence[function.Function]]


class IterationPosition(NamedTuple):
    """Position of an iteration in the schedule, counted from 0."""

    generation: int
    island: int
    conversation: int
    problem: int


@dataclass(frozen=True, slots=True)
class GenerationClock:
    """Maps iterations to generation, island, conversation and problem.

    The problem changes fastest. Parallel iterations then belong to different problems. So each problem visits its
    islands in the paper's order for any number of workers.
    """

    num_problems: int = 1
    num_islands: int = 4
    num_convs: int = 5
    num_gens: int = 10

    @property
    def num_iterations(self) -> int:
        return self.num_problems * self.num_islands * self.num_convs * self.num_gens

    def get_position(self, iteration: int) -> IterationPosition:
        remaining, problem = divmod(iteration - 1, self.num_problems)
        remaining, conversation = divmod(remaining, self.num_convs)
        generation, island = divmod(remaining, self.num_islands)
        return IterationPosition(generation, island, conversation, problem)

    def is_last_conversation(self, position: IterationPosition) -> bool:
        """Returns whether this is the island's last conversation of the generation."""
        return position.conversation == self.num_convs - 1

    def is_generation_end(self, position: IterationPosition) -> bool:
        return self.is_last_conversation(position) and position.island == self.num_islands - 1


def select_top_worldlines(fns: Sequence[function.Function], count: int) -> list[function.Function]:
    """Returns the best distinct worldlines by common score, best first."""
    distinct = {str(fn.skeleton()): fn for fn in reversed(list(fns)) if not plan_evaluator.is_base(fn)}
    return sorted(distinct.values(), key=plan_evaluator.get_score, reverse=True)[:count]


def select_by_fitness(
    candidates: Sequence[function.Function], count: int, selected_ids: Sequence[str]
) -> list[function.Function]:
    """Selects the best."""
    return list(candidates[:count])


def select_diverse(
    candidates: Sequence[function.Function], count: int, selected_ids: Sequence[str]
) -> list[function.Function]:
    """Selects the LLM's choices, or else the best. Then adds the candidates that differ most from the selected ones."""
    selected = [fn for fn in candidates if population.get_id(fn) in selected_ids][:count] or list(candidates[:1])
    lines_by_id = {population.get_id(fn): str(fn.skeleton()).splitlines() for fn in candidates}
    while len(selected) < min(count, len(candidates)):
        remaining = [fn for fn in candidates if fn not in selected]
        selected_lines = [lines_by_id[population.get_id(fn)] for fn in selected]
        selected.append(
            max(
                remaining,
                key=lambda fn: min(
                    worldline.compute_distance(lines_by_id[population.get_id(fn)], other_lines)
                    for other_lines in selected_lines
                ),
            )
        )
    return selected


@dataclass(frozen=True, slots=True)
class GenerationSchedule:
    """Schedule of a run: migration in a ring, resets of the lowest islands.

    Attributes:
        num_emigrate: Number of worldlines that migrate to the next island.
        migrate_every: Generations between migrations.
        reset_every: Generations between resets, counted from 1; 0 disables resets.
        num_reset: Number of islands that a reset empties: those with the lowest mean common score.
        num_top: Elites that refill an island after a reset.
        num_candidate: Number of best worldlines from which the elites are selected.
        select_elites: Selects the elites.
    """

    clock: GenerationClock
    num_emigrate: int = 5
    migrate_every: int = 1
    reset_every: int = 3
    num_reset: int = 2
    num_top: int = 5
    num_candidate: int = 15
    select_elites: EliteSelector = select_diverse

    @property
    def uses_clock(self) -> bool:
        return False

    def choose_island(self, iteration: int) -> int:
        position = self.clock.get_position(iteration)
        return position.problem * self.clock.num_islands + position.island

    def plan_actions(self, applied_count: int, islands: Sequence[Island], seed: str) -> Sequence[Migration | Reset]:
        position = self.clock.get_position(applied_count)
        num_islands = self.clock.num_islands
        if num_islands < 2 or not self.clock.is_last_conversation(position):
            return ()
        ring = islands[position.problem * num_islands : (position.problem + 1) * num_islands]
        actions: list[Migration | Reset] = []
        if (position.generation + 1) % self.migrate_every == 0:
            actions += migrate(ring, position.island, self.num_emigrate)
        if (
            self.reset_every
            and self.clock.is_generation_end(position)
            and (position.generation + 1) % self.reset_every == 0
        ):
            actions += self._make_resets(ring)
        return actions

    def _make_resets(self, ring: Sequence[Island]) -> Sequence[Reset]:
        return reset_lowest_islands(ring, self.num_reset, self.num_top, self.num_candidate, self.select_elites)


def migrate(ring: Sequence[Island], index: int, count: int) -> list[Migration]:
    """Copies the best of one island to the next in the ring, which computes their fitness with its own weights."""
    host = ring[(index + 1) % len(ring)].index
    migrants = sorted(population.get_members(ring[index]), key=function.get_fitness, reverse=True)[:count]
    return [Migration(fn, host) for fn in migrants]


def reset_lowest_islands(
    ring: Sequence[Island],
    num_reset: int,
    num_top: int,
    num_candidate: int,
    select_elites: EliteSelector = select_diverse,
) -> list[Reset]:
    """Empties the islands with the lowest mean score and refills them with elites of all islands.

    Means use the common score, not an island's own weights. At least one island is not reset.
    """
    members = [fn for island in ring for fn in population.get_members(island)]
    if not members or len(ring) < 2:
        return []
    candidates = select_top_worldlines(members, num_candidate)
    founders = select_elites(candidates, num_top, _get_selected_ids(ring))
    lowest = sorted(ring, key=lambda island: (compute_mean_score(island), island.index))[
        : min(num_reset, len(ring) - 1)
    ]
    return [Reset(island.index, founders) for island in sorted(lowest, key=lambda island: island.index)]


def compute_mean_score(island: archipelago.Island) -> float:
    """Returns the mean common score of an island; -inf for an empty one."""
    members = population.get_members(island)
    return fmean(plan_evaluator.get_score(fn) for fn in members) if members else -float("inf")


def _get_selected_ids(ring: Sequence[Island]) -> Sequence[str]:
    island_population = ring[0].population
    return (
        island_population.archive.selected_ids if isinstance(island_population, population.WorldlinePopulation) else ()
    )


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
        return f"ended after {max_gens} generations" if generation + 1 >= max_gens else ""

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
