"""Whose turn it is: generations of islands of problems; when the best swim on and the worst islands are refilled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from atoll import archipelago, function
from atoll.archipelago import Island, Migrate, Reset
from atoll.mind import judge, kinds, pool

type Elect = Callable[[Sequence[function.Function], int, Sequence[str]], Sequence[function.Function]]


class Turn(NamedTuple):
    """Where a step stands: all counted from 0."""

    generation: int
    island: int
    conversation: int
    problem: int


@dataclass(frozen=True, slots=True)
class Rounds:
    """Counts turns: per generation every island in turn, per island its conversations, each for all problems.

    The problems are the inmost: steps that fly at once belong to different problems, so that each problem is searched
    in the paper's order, island after island, however many workers there are.
    """

    num_problems: int = 1
    num_islands: int = 4
    num_convs: int = 5
    num_gens: int = 10

    @property
    def num_steps(self) -> int:
        return self.num_problems * self.num_islands * self.num_convs * self.num_gens

    def turn(self, step: int) -> Turn:
        rest, problem = divmod(step - 1, self.num_problems)
        rest, conversation = divmod(rest, self.num_convs)
        generation, island = divmod(rest, self.num_islands)
        return Turn(generation, island, conversation, problem)

    def ends_island(self, turn: Turn) -> bool:
        """Says whether an island's generation is over with this turn."""
        return turn.conversation == self.num_convs - 1

    def ends_generation(self, turn: Turn) -> bool:
        return self.ends_island(turn) and turn.island == self.num_islands - 1


def select_top_worldlines(fns: Sequence[function.Function], number: int) -> list[function.Function]:
    """Returns the best of different texts on the scale that all islands share, the best first."""
    distinct = {str(fn.skeleton()): fn for fn in reversed(list(fns)) if not judge.is_base(fn)}
    return sorted(distinct.values(), key=judge.score_of, reverse=True)[:number]


def by_fitness(candidates: Sequence[function.Function], number: int, chosen: Sequence[str]) -> list[function.Function]:
    """Elects the best."""
    return list(candidates[:number])


def by_difference(
    candidates: Sequence[function.Function], number: int, chosen: Sequence[str]
) -> list[function.Function]:
    """Elects those that a model chose; and, of the others, the best and then whoever is least like the elected."""
    elected = [fn for fn in candidates if pool.id_of(fn) in chosen][:number] or list(candidates[:1])
    lines = {pool.id_of(fn): str(fn.skeleton()).splitlines() for fn in candidates}
    while len(elected) < min(number, len(candidates)):
        rest = [fn for fn in candidates if fn not in elected]
        taken = [lines[pool.id_of(fn)] for fn in elected]
        elected.append(max(rest, key=lambda fn: min(kinds.distance(lines[pool.id_of(fn)], each) for each in taken)))
    return elected


@dataclass(frozen=True, slots=True)
class Exchange:
    """The schedule of a run: migration in a ring, reset of the lowest islands.

    Attributes:
        num_emigrate: How many of an island's best are cloned to the next one.
        migrate_every: Generations between migrations.
        reset_every: Generations between resets; 0: never. Counted from 1: nothing is reset at the start.
        num_reset: Islands with the lowest mean, on the scale that all share, that are emptied.
        num_top: Founders of an island that was emptied.
        num_candidate: Best worldlines of all islands from which they are elected.
        elect: How.
    """

    rounds: Rounds
    num_emigrate: int = 5
    migrate_every: int = 1
    reset_every: int = 3
    num_reset: int = 2
    num_top: int = 5
    num_candidate: int = 15
    elect: Elect = by_difference

    @property
    def uses_clock(self) -> bool:
        return False

    def island(self, step: int) -> int:
        turn = self.rounds.turn(step)
        return turn.problem * self.rounds.num_islands + turn.island

    def due(self, applied: int, islands: Sequence[Island], seed: str) -> Sequence[Migrate | Reset]:
        turn = self.rounds.turn(applied)
        number = self.rounds.num_islands
        if number < 2 or not self.rounds.ends_island(turn):
            return ()
        ring = islands[turn.problem * number : (turn.problem + 1) * number]
        actions: list[Migrate | Reset] = []
        if (turn.generation + 1) % self.migrate_every == 0:
            actions += migrate(ring, turn.island, self.num_emigrate)
        if self.reset_every and self.rounds.ends_generation(turn) and (turn.generation + 1) % self.reset_every == 0:
            actions += self._resets(ring)
        return actions

    def _resets(self, ring: Sequence[Island]) -> Sequence[Reset]:
        return reset_lowest_islands(ring, self.num_reset, self.num_top, self.num_candidate, self.elect)


def migrate(ring: Sequence[Island], place: int, number: int) -> list[Migrate]:
    """Clones the best of one island to the next in the ring, where they are ranked by its own weights."""
    host = ring[(place + 1) % len(ring)].index
    best = sorted(pool.members_of(ring[place]), key=function.rank_of, reverse=True)[:number]
    return [Migrate(fn, host) for fn in best]


def reset_lowest_islands(
    ring: Sequence[Island], number: int, num_top: int, num_candidate: int, elect: Elect = by_difference
) -> list[Reset]:
    """Empties the islands with the lowest mean score and founds each with elites of all islands.

    Means are of the score that all islands share, never of an island's own weights; at least one island stays.
    """
    everyone = [fn for island in ring for fn in pool.members_of(island)]
    if not everyone or len(ring) < 2:
        return []
    candidates = select_top_worldlines(everyone, num_candidate)
    founders = elect(candidates, num_top, _chosen(ring))
    lowest = sorted(ring, key=lambda island: (mean_score(island), island.index))[: min(number, len(ring) - 1)]
    return [Reset(island.index, founders) for island in sorted(lowest, key=lambda each: each.index)]


def mean_score(island: archipelago.Island) -> float:
    """Returns the mean score of an island on the common scale; an empty one is below all."""
    members = pool.members_of(island)
    return fmean(judge.score_of(fn) for fn in members) if members else -float("inf")


def _chosen(ring: Sequence[Island]) -> Sequence[str]:
    kept = ring[0].pool
    return kept.hall.chosen if isinstance(kept, pool.Population) else ()
