"""What an island keeps of the programs that evolve, and which of them a step starts from and looks at."""

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Literal

from atoll import archipelago, cluster, function
from atoll.cluster.choosers import Ranking
from atoll.programs.features import USUAL, features_of

type Kind = Literal["grid", "front", "clusters"]


@dataclass(frozen=True, slots=True)
class Shares:
    """How parents are drawn, as OpenEvolve names it; what is left of 1 is drawn by rank.

    Attributes:
        explore: Of draws among all cells alike.
        exploit: Of draws among the archive's elites alike.
        archive_size: Cells that are in the archive: the best.
    """

    explore: float = 0.2
    exploit: float = 0.7
    archive_size: int = 100


class Mixed:
    """A chooser that explores, exploits, or draws by rank, and knows the cells, so that others can be shown.

    By rank, the one at place r of n has the weight 2 (n - r) - 1, r counted from 0: the best is about twice as likely
    as the one in the middle, whatever the scale and the sign of the scores. No cluster is drawn twice.
    """

    def __init__(self, rng: Random, shares: Shares = Shares()) -> None:  # noqa: B008 - frozen
        self._rng, self._shares = rng, shares
        self.clear()

    def clear(self) -> None:
        self._ranking = Ranking()
        self._cells: list[cluster.Kept] = []
        self._keys: list[Hashable] = []
        self._places: dict[Hashable, int] = {}
        self._chosen: Sequence[int] = ()

    def set(self, index: int, score: float, size: int) -> None:
        self._ranking.set(index, score)

    def choose(self, k: int, registered: int) -> Sequence[int]:
        ranks = list[int]()
        for left in range(len(self._ranking), max(0, len(self._ranking) - k), -1):
            rank = self._rank(left)
            for taken in sorted(ranks):
                rank += rank >= taken
            ranks.append(rank)
        self._chosen = [self._ranking.at(rank)[0] for rank in ranks]
        return self._chosen

    def _rank(self, count: int) -> int:
        """Draws a rank among so many that are left."""
        rng, shares, drawn = self._rng, self._shares, self._rng.random()
        if drawn < shares.explore:
            return rng.randrange(count)
        if drawn < shares.explore + shares.exploit:
            return rng.randrange(max(1, min(count, shares.archive_size)))
        return min(rng.randrange(count), rng.randrange(count))

    def kept(self, key: Hashable, made: cluster.Kept) -> cluster.Kept:
        """Takes note of a cell that the pool has just made."""
        self._places[key] = len(self._cells)
        self._keys.append(key)
        self._cells.append(made)
        return made

    def best(self, count: int) -> Sequence[function.Function]:
        """Returns the best of the best cells, best first."""
        found = min(count, len(self._cells))
        return [self._cells[self._ranking.at(rank)[0]].best_fn() for rank in range(found)]

    def near(self, count: int) -> Sequence[function.Function]:
        """Returns who lives in cells beside those of the parents, in a random order."""
        cells = list(dict.fromkeys(place for index in self._chosen for place in self._neighbours(self._keys[index])))
        return [self._cells[place].best_fn() for place in self._rng.sample(cells, min(count, len(cells)))]

    def _neighbours(self, key: Hashable) -> Iterator[int]:
        if isinstance(key, tuple) and all(isinstance(each, int) for each in key):
            for axis, step in itertools.product(range(len(key)), (-2, -1, 1, 2)):
                place = self._places.get((*key[:axis], key[axis] + step, *key[axis + 1 :]))
                if place is not None:
                    yield place

    def anyone(self, count: int) -> Sequence[function.Function]:
        """Returns some, each from another cell, all alike."""
        found = min(count, len(self._cells))
        return [self._cells[place].best_fn() for place in self._rng.sample(range(len(self._cells)), found)]

    @property
    def num_cells(self) -> int:
        return len(self._cells)


class Ranked(Mixed):
    """Draws by rank as `cluster.RankChooser`, and knows the cells."""

    def __init__(self, rng: Random, spread: float = 0.1) -> None:
        super().__init__(rng)
        self._spread = spread

    def _rank(self, count: int) -> int:
        log_q = -1.0 / max(1.0, self._spread * len(self._ranking))
        u = self._rng.random() * -math.expm1(count * log_q)  # the inverse of the truncated geometric
        return min(int(math.log1p(-u) / log_q), count - 1)


@dataclass(frozen=True, slots=True)
class Shelf:
    """Makes the pools of islands.

    Attributes:
        kind: `grid`: the best program of each cell over the features (MAP-Elites); `front`: the best of each instance,
            or of each metric where there is one instance only; `clusters`: all, by signature, drawn by rank.
        num_parents: Programs that a step starts from.
        features: Dimensions of the grid.
        num_bins: Cells per dimension, an even number.
        num_references: Programs that diversity is measured against.
        shares: How parents are drawn.
        num_top: The best programs that a step is shown.
        num_diverse: Others that it is shown, and as many inspirations.
        goodness: What a metric is worth on a front; by default more is better.
    """

    kind: Kind = "grid"
    num_parents: int = 1
    features: Sequence[str] = USUAL
    num_bins: int = 10
    num_references: int = 20
    shares: Shares = Shares()
    num_top: int = 3
    num_diverse: int = 2
    goodness: Callable[[str, float], float] = lambda name, value: value

    def __call__(self, island: int, rng: Random, announce: cluster.Announce) -> cluster.Niches:
        """Makes the pool of an island; a `cluster.MakePool`."""
        chooser = Ranked(rng) if self.kind == "clusters" else Mixed(rng, self.shares)
        keys, make = self._kind(rng, announce)
        return cluster.Niches(
            keys,
            lambda key: chooser.kept(key, make(key)),
            chooser,
            num_parents=self.num_parents,
            others=lambda niches: self._others(chooser),
        )

    def _kind(self, rng: Random, announce: cluster.Announce) -> tuple[cluster.Keys, Callable[[Hashable], cluster.Kept]]:
        match self.kind:
            case "grid":
                keys = cluster.Bins(features_of(self.features, self.num_references), self.num_bins)
                return keys, lambda key: cluster.EliteCluster(rng, announce)
            case "front":
                return self._objectives, lambda key: cluster.EliteCluster(
                    rng, announce, value=partial(self._worth, key), ties=True
                )
            case "clusters":
                return cluster.by_signature, lambda key: cluster.DefaultCluster(rng, announce)

    def _objectives(self, fn: function.Function) -> Sequence[Hashable]:
        """Returns a key per instance, or per metric where there is one instance only; the score is always one."""
        found = fn.evaluation
        if found is None:
            return ()
        if len(found.scores) > 1:
            return [("instance", place) for place in range(len(found.scores))]
        return [("score",), *(("metric", name) for name in sorted(found.metrics) if name not in self.features)]

    def _worth(self, key: Hashable, fn: function.Function) -> float:
        found = fn.evaluation
        match key:
            case ("instance", int(place)) if found:
                return found.scores[place]
            case ("metric", str(name)) if found:
                return self.goodness(name, found.metrics[name])
        return function.rank_of(fn)

    def _others(self, chooser: Mixed) -> Mapping[str, Sequence[function.Function]]:
        """Returns the best; some at random; and inspirations from cells near the parents'."""
        top, near = chooser.best(self.num_top), chooser.near(self.num_diverse)
        roles = {"top": top, "diverse": chooser.anyone(self.num_diverse), "inspirations": near}
        return {role: fns for role, fns in roles.items() if fns}


def emigrants(rate: float) -> Callable[[archipelago.Island], Sequence[function.Function]]:
    """Returns who leaves an island: of its best cells that share, one at least; a migrant never leaves again."""

    def leaving(island: archipelago.Island) -> Sequence[function.Function]:
        pool = island.pool
        if not isinstance(pool, cluster.Niches) or not isinstance(pool.chooser, Mixed):
            return [island.best_fn()]
        wanted = max(1, math.ceil(rate * pool.chooser.num_cells))
        return [fn for fn in pool.chooser.best(wanted) if fn.candidate and fn.candidate.island == island.index]

    return leaving
