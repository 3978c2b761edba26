"""Schedule of generations: the order of islands and problems, migration and resets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from atoll import archipelago, function
from atoll.archipelago import Island, Migration, Reset
from atoll.mind import backends, plan_evaluator, population

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
                    backends.compute_distance(lines_by_id[population.get_id(fn)], other_lines)
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
