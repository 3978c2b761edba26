"""Which laws an island keeps and varies: the best few of every size, of every structure the best constants."""

import math
from bisect import insort
from collections.abc import Hashable, Mapping, Sequence
from random import Random

from atoll import cluster, function
from atoll.llmsr.laws import search

SMALLER = 0.98  # a larger law must have less than this share of the error to stand on the front
_FLOOR = 1e-32  # NMSE: below it are rounding errors, and an exact law is as good as another
_PER_SIZE = 5
_FROM_FRONT = 0.6


def score_of(error: float) -> float:
    """Returns the digits that a law gets right: minus the decimal logarithm of its error (NMSE), at most 32."""
    return -math.log10(max(error, _FLOOR))


def by_structure(fn: function.Function) -> Sequence[Hashable]:
    """One niche per size and structure."""
    size = int(fn.evaluation.metrics["size"]) if fn.evaluation else 0
    shape = fn.candidate.meta.get("shape") if fn.candidate else None
    return ((size, shape or str(fn.skeleton())),)


class FrontChooser:
    """Draws mostly from the front of error and size, the larger laws more often, else from the best few of any size.

    Once a law is exact, only smaller ones are drawn.
    """

    def __init__(self, rng: Random, announce: cluster.Announce = None) -> None:
        self._rng, self._announce = rng, announce
        self.clear()

    def clear(self) -> None:
        self._clusters: list[cluster.EliteCluster] = []
        self._sizes: list[int] = []
        self._ranked: dict[int, list[tuple[float, int]]] = {}  # by size: (-score, cluster), best first

    def make_cluster(self, key: Hashable) -> cluster.EliteCluster:
        """Makes the next cluster, of a key from `by_structure`."""
        assert isinstance(key, tuple)
        self._sizes.append(key[0])
        self._clusters.append(cluster.EliteCluster(self._rng, self._announce))
        return self._clusters[-1]

    def set(self, index: int, score: float, size: int) -> None:
        ranked = self._ranked.setdefault(self._sizes[index], [])
        ranked[:] = [each for each in ranked if each[1] != index]
        insort(ranked, (-score, index))
        del ranked[_PER_SIZE:]

    def choose(self, k: int, registered: int) -> Sequence[int]:
        front = self._front()
        return [self._one(front) for _ in range(k)] if front else []

    def _one(self, front: Sequence[int]) -> int:
        if self._rng.random() < _FROM_FRONT:
            return front[int(len(front) * math.sqrt(self._rng.random()))]
        largest = self._sizes[front[-1]]
        sizes = [size for size in sorted(self._ranked) if size <= largest or not self._is_exact(front[-1])]
        return self._rng.choice(self._ranked[self._rng.choice(sizes)])[1]

    def _is_exact(self, index: int) -> bool:
        return function.rank_of(self._clusters[index].best_fn()) > score_of(search.EXACT)

    def _front(self) -> list[int]:
        front: list[int] = []
        least = -math.inf
        for size in sorted(self._ranked):
            score, index = -self._ranked[size][0][0], self._ranked[size][0][1]
            if score > least - math.log10(SMALLER):
                front.append(index)
                least = score
            if least > score_of(search.EXACT):
                break
        return front

    def front(self) -> Sequence[function.Function]:
        """Returns the laws that nothing smaller beats, smallest first."""
        return [self._clusters[index].best_fn() for index in self._front()]


def make_pool(island: int, rng: Random, announce: cluster.Announce) -> cluster.Niches:
    """Makes the pool of an island, which shows its front to every step."""
    chooser = FrontChooser(rng, announce)

    def others(niches: cluster.Niches) -> Mapping[str, Sequence[function.Function]]:
        return {"front": chooser.front()}

    return cluster.Niches(by_structure, chooser.make_cluster, chooser, num_parents=2, others=others)
