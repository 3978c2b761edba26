"""Population of laws: the best few of each size, with the best constants of each structure."""

import math
from bisect import insort
from collections.abc import Hashable, Mapping, Sequence
from random import Random

from atoll import cluster, function
from atoll.llmsr.laws import search

FRONT_ERROR_RATIO = 0.98  # a larger law on the front must have less than this share of the error
_MIN_ERROR = 1e-32  # NMSE: smaller errors are rounding, and all exact laws are equal
_MAX_PER_SIZE = 5
_FRONT_PROBABILITY = 0.6


def compute_score(error: float) -> float:
    """Returns -log10 of the error (NMSE), at most 32: the number of correct digits."""
    return -math.log10(max(error, _MIN_ERROR))


def get_structure_key(fn: function.Function) -> Sequence[Hashable]:
    """Returns the niche of a law: its size and structure."""
    size = int(fn.evaluation.metrics["size"]) if fn.evaluation else 0
    shape = fn.candidate.meta.get("shape") if fn.candidate else None
    return ((size, shape or str(fn.skeleton())),)


class FrontSelector:
    """Draws mostly from the front of error and size, larger laws more often, else from the best few of any size.

    After a law is exact, it draws only smaller laws.
    """

    def __init__(self, rng: Random, announce: cluster.ClusterProfilers = None) -> None:
        self._rng, self._announce = rng, announce
        self.clear()

    def clear(self) -> None:
        self._clusters: list[cluster.EliteCluster] = []
        self._sizes: list[int] = []
        self._ranked: dict[int, list[tuple[float, int]]] = {}  # by size: (-score, cluster), best first

    def make_cluster(self, key: Hashable) -> cluster.EliteCluster:
        """Makes the next cluster, for a key from `get_structure_key`."""
        assert isinstance(key, tuple)
        self._sizes.append(key[0])
        self._clusters.append(cluster.EliteCluster(self._rng, self._announce))
        return self._clusters[-1]

    def set(self, index: int, score: float, size: int) -> None:
        ranked = self._ranked.setdefault(self._sizes[index], [])
        ranked[:] = [entry for entry in ranked if entry[1] != index]
        insort(ranked, (-score, index))
        del ranked[_MAX_PER_SIZE:]

    def select(self, k: int, registered: int) -> Sequence[int]:
        front = self._get_front_indices()
        return [self._select_one(front) for _ in range(k)] if front else []

    def _select_one(self, front: Sequence[int]) -> int:
        if self._rng.random() < _FRONT_PROBABILITY:
            return front[int(len(front) * math.sqrt(self._rng.random()))]
        largest = self._sizes[front[-1]]
        sizes = [size for size in sorted(self._ranked) if size <= largest or not self._is_exact(front[-1])]
        return self._rng.choice(self._ranked[self._rng.choice(sizes)])[1]

    def _is_exact(self, index: int) -> bool:
        return function.get_fitness(self._clusters[index].best_fn()) > compute_score(search.EXACT_ERROR)

    def _get_front_indices(self) -> list[int]:
        front: list[int] = []
        best_score = -math.inf
        for size in sorted(self._ranked):
            score, index = -self._ranked[size][0][0], self._ranked[size][0][1]
            if score > best_score - math.log10(FRONT_ERROR_RATIO):
                front.append(index)
                best_score = score
            if best_score > compute_score(search.EXACT_ERROR):
                break
        return front

    def get_front(self) -> Sequence[function.Function]:
        """Returns the laws that no smaller law beats, smallest first."""
        return [self._clusters[index].best_fn() for index in self._get_front_indices()]


def make_population(island: int, rng: Random, announce: cluster.ClusterProfilers) -> cluster.NichedPopulation:
    """Makes the population of an island, which shows its front to every iteration."""
    selector = FrontSelector(rng, announce)

    def get_inspirations(population: cluster.NichedPopulation) -> Mapping[str, Sequence[function.Function]]:
        return {"front": selector.get_front()}

    return cluster.NichedPopulation(
        get_structure_key, selector.make_cluster, selector, num_parents=2, inspirations=get_inspirations
    )
