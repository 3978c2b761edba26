"""Population of laws: the best few of each size, with the best constants of each structure."""

import math
from bisect import insort
from collections.abc import Hashable, Mapping, Sequence
from random import Random

from atoll import cluster, function, system
from atoll.llmsr.laws import search

FRONT_ERROR_RATIO = 0.98  # a larger law on the front must have less than this share of the error
_MIN_ERROR = 1e-32  # NMSE: smaller errors are rounding, and all exact laws are equal
MAX_PER_SIZE, _MAX_PRODUCTS_PER_SIZE = 4, 5
_FRONT_PROBABILITY = 0.6
VIEW_ROLE = "view "  # role of the laws of a view, followed by its index
_PRODUCTS = -1  # group of the sums of products, and of all equations if an LLM searches alone
FORMULAS = -2  # group of the formulas of an LLM beside the search: on the front, but not varied as sums of products
_TRIAL_PROBABILITY = 0.5  # of a view without laws
_RANDOM_PROBABILITY = 0.1  # of a random view if the sums of products lead
_PRODUCTS_SHARE, _RANDOM_SHARE = 0.3, 0.25  # of the sums of products and a random view if a view leads
_PRINTED_RATIO = 0.5  # of the error of the front: a law below it gets a progress line
_SIZE_PENALTY = 0.1  # of log error, per node


def compute_score(error: float) -> float:
    """Returns -log10 of the error (NMSE), at most 32: the number of correct digits."""
    return -math.log10(max(error, _MIN_ERROR))


def get_structure_key(fn: function.Function) -> Sequence[Hashable]:
    """Returns the niche of a law: its size, view and structure."""
    size = int(fn.evaluation.metrics["size"]) if fn.evaluation else 0
    meta = fn.candidate.meta if fn.candidate else {}
    return ((size, meta.get("view", _PRODUCTS), meta.get("shape") or str(fn.skeleton())),)


class FrontSelector:
    """Keeps the best few laws of every size in every group: the sums of products, the laws of each view, and formulas.

    It draws sums of products mostly from the front of error and size, larger laws more often, else from the best few of
    any size. For a view it gives all that it keeps.
    """

    def __init__(self, rng: Random, num_views: int, announce: cluster.ClusterProfilers = None) -> None:
        self._rng, self._num_views, self._announce = rng, num_views, announce
        self.clear()

    def clear(self) -> None:
        self._clusters: list[cluster.EliteCluster] = []
        self._keys: list[tuple[int, int]] = []  # (group, size) of every cluster
        self._ranked: dict[tuple[int, int], list[tuple[float, int]]] = {}  # (-score, cluster), best first

    def make_cluster(self, key: Hashable) -> cluster.EliteCluster:
        """Makes the next cluster, for a key from `get_structure_key`."""
        assert isinstance(key, tuple)
        self._keys.append((key[1], key[0]))
        self._clusters.append(cluster.EliteCluster(self._rng, self._announce))
        return self._clusters[-1]

    def set(self, index: int, score: float, size: int) -> None:
        ranked = self._ranked.setdefault(self._keys[index], [])
        ranked[:] = [entry for entry in ranked if entry[1] != index]
        insort(ranked, (-score, index))
        del ranked[_MAX_PRODUCTS_PER_SIZE if self._keys[index][0] == _PRODUCTS else MAX_PER_SIZE :]

    def select(self, k: int, registered: int) -> Sequence[int]:
        front = self._get_front_indices(_PRODUCTS)
        return [self._select_one(front) for _ in range(k)] if front else []

    def _select_one(self, front: Sequence[int]) -> int:
        if self._rng.random() < _FRONT_PROBABILITY:
            return front[int(len(front) * math.sqrt(self._rng.random()))]
        _, largest = self._keys[front[-1]]
        sizes = [size for group, size in sorted(self._ranked) if group == _PRODUCTS]
        if self._is_exact(front[-1]):
            sizes = [size for size in sizes if size <= largest]
        return self._rng.choice(self._ranked[_PRODUCTS, self._rng.choice(sizes)])[1]

    def _is_exact(self, index: int) -> bool:
        return function.get_fitness(self._clusters[index].best_fn()) > compute_score(search.EXACT_ERROR)

    def _get_front_indices(self, group: int | None) -> list[int]:
        """Returns the clusters on the front of a group, or of all groups, smallest first."""
        front: list[int] = []
        best_score = -math.inf
        for key in sorted(self._ranked, key=lambda key: (key[1], key[0])):
            if group not in (None, key[0]):
                continue
            score, index = -self._ranked[key][0][0], self._ranked[key][0][1]
            if score > best_score - math.log10(FRONT_ERROR_RATIO):
                if front and self._keys[front[-1]][1] == key[1]:
                    front.pop()
                front.append(index)
                best_score = score
            if best_score > compute_score(search.EXACT_ERROR):
                break
        return front

    def get_front(self) -> Sequence[function.Function]:
        """Returns the laws that no smaller law beats, smallest first."""
        return [self._clusters[index].best_fn() for index in self._get_front_indices(None)]

    def draw_view(self) -> int | None:
        """Returns the view for the next iteration; None for sums of products."""
        if not self._num_views:
            return None
        known = sorted({group for group, _ in self._ranked if group != FORMULAS})
        new = [view for view in range(self._num_views) if view not in known]
        draw = self._rng.random()
        if new:
            return new[0] if draw < _TRIAL_PROBABILITY else None
        best = min(known, key=self._compute_merit)
        if best == _PRODUCTS:
            return self._rng.randrange(self._num_views) if draw < _RANDOM_PROBABILITY else None
        if draw < _PRODUCTS_SHARE:
            return None
        return self._rng.randrange(self._num_views) if draw < _PRODUCTS_SHARE + _RANDOM_SHARE else best

    def _compute_merit(self, group: int) -> float:
        """Returns the best log error of a group with a penalty for size; lower is better."""
        entries = [(key[1], ranked[0][0]) for key, ranked in self._ranked.items() if key[0] == group]
        return min(negative_score * math.log(10.0) + _SIZE_PENALTY * size for size, negative_score in entries)

    def get_laws(self, view: int) -> Sequence[function.Function]:
        """Returns the laws of a view, smallest first."""
        keys = sorted(key for key in self._ranked if key[0] == view)
        return [self._clusters[index].best_fn() for key in keys for _, index in self._ranked[key]]


class FrontSummarizer:
    """Describes laws for progress lines. A law that lowers the front of error and size gets a line of its own."""

    def __init__(self) -> None:
        self._errors: dict[int, float] = {}  # of the front, by size
        self._groups: dict[str, str] = {}  # by candidate

    def __call__(self, fn: function.Function) -> system.CandidateSummary:
        metrics = fn.evaluation.metrics if fn.evaluation else {}
        text = " ".join(str(fn.skeleton()).partition("return")[2].split())
        text = text[2:-2] if text.startswith("( ") else text
        size, error = int(metrics.get("size", 0)), metrics.get("nmse", math.inf)
        identifier = fn.candidate.id if fn.candidate else ""
        if identifier not in self._groups:
            best = min((known for other, known in self._errors.items() if other <= size), default=math.inf)
            is_new = error < _PRINTED_RATIO * best
            if is_new:
                self._errors[size] = error
            self._groups[identifier] = identifier if is_new else ""
        return system.CandidateSummary(self._groups[identifier], f"size {size:>2}, error {error:.2e}: {text}")


def make_population(
    island: int, rng: Random, announce: cluster.ClusterProfilers, num_views: int
) -> cluster.NichedPopulation:
    """Makes the population of an island, which shows its front and the laws of one view to every iteration."""
    selector = FrontSelector(rng, num_views, announce)

    def get_inspirations(population: cluster.NichedPopulation) -> Mapping[str, Sequence[function.Function]]:
        view = selector.draw_view()
        laws = {} if view is None else {f"{VIEW_ROLE}{view}": selector.get_laws(view)}
        return {"front": selector.get_front(), **laws}

    return cluster.NichedPopulation(
        get_structure_key, selector.make_cluster, selector, num_parents=2, inspirations=get_inspirations
    )
