"""Populations of programs: grid, front or clusters; features of programs; selection of parents and inspirations."""

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Literal

from atoll import archipelago, cluster, function
from atoll.candidate import content_hash
from atoll.cluster.selectors import RankedClusters

DEFAULT_FEATURES = ("complexity", "diversity")

type Feature = Callable[[function.Function], float]


def get_complexity(fn: function.Function) -> float:
    """Returns the length in characters, as in OpenEvolve."""
    return float(len(str(fn.skeleton())))


class Diversity:
    """Mean distance of a program to the first distinct programs, from 0 to 1.

    The distance is the share of lines that two programs do not have in common. There are at most `size` references.
    The value of a program never changes, so it stays in its cell, and a resumed run computes the same.
    """

    def __init__(self, size: int = 20) -> None:
        self._size = size
        self._references: list[frozenset[str]] = []
        self._distances: dict[str, float] = {}

    def __call__(self, fn: function.Function) -> float:
        text = str(fn.skeleton())
        key = content_hash(text)
        if key not in self._distances:
            lines = frozenset(filter(None, map(str.strip, text.splitlines())))
            self._distances[key] = self._mean_distance(lines)
            if len(self._references) < self._size and lines not in self._references:
                self._references.append(lines)
        return self._distances[key]

    def _mean_distance(self, lines: frozenset[str]) -> float:
        return sum(compute_distance(lines, other) for other in self._references) / max(1, len(self._references))


def compute_distance(lines: frozenset[str], other_lines: frozenset[str]) -> float:
    """Returns the share of lines that only one of two programs has."""
    shared_count = len(lines & other_lines)
    total_count = len(lines) + len(other_lines) - shared_count
    return 1.0 - shared_count / total_count if total_count else 0.0


def make_features(names: Sequence[str], reference_size: int = 20) -> Sequence[Feature]:
    """Returns the feature functions; each island needs its own, with its own references."""
    builtin_features: dict[str, Feature] = {"complexity": get_complexity, "score": function.get_fitness}
    if "diversity" in names:
        builtin_features["diversity"] = Diversity(reference_size)
    return [_make_feature(name, builtin_features.get(name)) for name in names]


def _make_feature(name: str, fallback: Feature | None) -> Feature:
    """Returns the evaluator's metric of that name, or our own feature, or NaN, which has its own cell."""

    def measure(fn: function.Function) -> float:
        metrics = fn.evaluation.metrics if fn.evaluation else {}
        if name in metrics:
            return metrics[name]
        return fallback(fn) if fallback else math.nan

    return measure


type PopulationKind = Literal["grid", "front", "clusters"]


@dataclass(frozen=True, slots=True)
class SelectionRatios:
    """Shares of selection modes, as in OpenEvolve; the rest up to 1 is drawn by rank.

    Attributes:
        explore: Share drawn uniformly from all cells.
        exploit: Share drawn uniformly from the archive.
        archive_size: Number of best cells in the archive.
    """

    explore: float = 0.2
    exploit: float = 0.7
    archive_size: int = 100


class ExploreExploitSelector:
    """Explores, exploits, or draws by rank. Knows the cells, so that it can also draw inspirations.

    By rank r (from 0) of n, the weight is 2 (n - r) - 1: the best is about twice as likely as the middle one, for any
    scale of scores. No cluster is drawn twice.
    """

    def __init__(self, rng: Random, ratios: SelectionRatios = SelectionRatios()) -> None:  # noqa: B008 - frozen
        self._rng, self._ratios = rng, ratios
        self.clear()

    def clear(self) -> None:
        self._ranking = RankedClusters()
        self._cells: list[cluster.ListableCluster] = []
        self._keys: list[Hashable] = []
        self._cell_indices: dict[Hashable, int] = {}
        self._selected: Sequence[int] = ()

    def set(self, index: int, score: float, size: int) -> None:
        self._ranking.set(index, score)

    def select(self, k: int, registered: int) -> Sequence[int]:
        ranks = list[int]()
        for num_remaining in range(len(self._ranking), max(0, len(self._ranking) - k), -1):
            rank = self._draw_rank(num_remaining)
            for earlier_rank in sorted(ranks):
                rank += rank >= earlier_rank
            ranks.append(rank)
        self._selected = [self._ranking.get_at_rank(rank)[0] for rank in ranks]
        return self._selected

    def _draw_rank(self, count: int) -> int:
        """Draws a rank among the remaining clusters."""
        rng, ratios, draw = self._rng, self._ratios, self._rng.random()
        if draw < ratios.explore:
            return rng.randrange(count)
        if draw < ratios.explore + ratios.exploit:
            return rng.randrange(max(1, min(count, ratios.archive_size)))
        return min(rng.randrange(count), rng.randrange(count))

    def register_cell(self, key: Hashable, cell: cluster.ListableCluster) -> cluster.ListableCluster:
        """Registers a new cell of the population."""
        self._cell_indices[key] = len(self._cells)
        self._keys.append(key)
        self._cells.append(cell)
        return cell

    def get_best(self, count: int) -> Sequence[function.Function]:
        """Returns the elites of the best cells, best first."""
        ranks = range(min(count, len(self._cells)))
        return [self._cells[self._ranking.get_at_rank(rank)[0]].best_fn() for rank in ranks]

    def sample_neighbors(self, count: int) -> Sequence[function.Function]:
        """Returns elites of cells near those of the parents, in random order."""
        neighbors = (neighbor for index in self._selected for neighbor in self._iter_neighbors(self._keys[index]))
        indices = list(dict.fromkeys(neighbors))
        return [self._cells[neighbor].best_fn() for neighbor in self._rng.sample(indices, min(count, len(indices)))]

    def _iter_neighbors(self, key: Hashable) -> Iterator[int]:
        if isinstance(key, tuple) and all(isinstance(coordinate, int) for coordinate in key):
            for axis, offset in itertools.product(range(len(key)), (-2, -1, 1, 2)):
                index = self._cell_indices.get((*key[:axis], key[axis] + offset, *key[axis + 1 :]))
                if index is not None:
                    yield index

    def sample_any(self, count: int) -> Sequence[function.Function]:
        """Returns elites of distinct cells, drawn uniformly."""
        indices = self._rng.sample(range(len(self._cells)), min(count, len(self._cells)))
        return [self._cells[index].best_fn() for index in indices]

    @property
    def num_cells(self) -> int:
        return len(self._cells)


class CellRankSelector(ExploreExploitSelector):
    """Draws by rank like `cluster.RankSelector`, and knows the cells."""

    def __init__(self, rng: Random, spread: float = 0.1) -> None:
        super().__init__(rng)
        self._spread = spread

    def _draw_rank(self, count: int) -> int:
        log_q = -1.0 / max(1.0, self._spread * len(self._ranking))
        u = self._rng.random() * -math.expm1(count * log_q)  # inverse of a truncated geometric
        return min(int(math.log1p(-u) / log_q), count - 1)


class CustomSelector(ExploreExploitSelector):
    """Draws with another selector, and knows the cells."""

    def __init__(self, rng: Random, selector: cluster.Selector) -> None:
        self._selector = selector
        super().__init__(rng)

    def clear(self) -> None:
        super().clear()
        self._selector.clear()

    def set(self, index: int, score: float, size: int) -> None:
        super().set(index, score, size)
        self._selector.set(index, score, size)

    def select(self, k: int, registered: int) -> Sequence[int]:
        self._selected = self._selector.select(k, registered)
        return self._selected


@dataclass(frozen=True, slots=True)
class PopulationFactory:
    """Makes the populations of islands.

    Attributes:
        kind: `grid`: the best program of each feature cell (MAP-Elites); `front`: the best of each instance, or of each
            metric if there is one instance; `clusters`: all programs, by signature, drawn by rank.
        num_parents: Parents per iteration.
        features: Dimensions of the grid.
        num_bins: Cells per dimension, an even number.
        num_references: Programs that the feature `diversity` compares with.
        ratios: Shares of the selection modes.
        num_top: Best programs in a prompt.
        num_diverse: Diverse programs in a prompt, and as many inspirations.
        metric_value: Value of a metric on a front; default: higher is better.
        make_selector: Makes the selector of an island; None: as the kind says.
    """

    kind: PopulationKind = "grid"
    num_parents: int = 1
    features: Sequence[str] = DEFAULT_FEATURES
    num_bins: int = 10
    num_references: int = 20
    ratios: SelectionRatios = SelectionRatios()
    num_top: int = 3
    num_diverse: int = 2
    metric_value: Callable[[str, float], float] = lambda name, value: value
    make_selector: Callable[[Random, float], cluster.Selector] | None = None

    def __call__(self, island: int, rng: Random, profilers: cluster.ClusterProfilers) -> cluster.NichedPopulation:
        """Makes the population of an island; a `cluster.MakePopulation`."""
        selector = CellRankSelector(rng) if self.kind == "clusters" else ExploreExploitSelector(rng, self.ratios)
        if self.make_selector is not None:
            selector = CustomSelector(rng, self.make_selector(rng, 0.1))
        niche_key, make_cluster = self._make_niches(rng, profilers)
        return cluster.NichedPopulation(
            niche_key,
            lambda key: selector.register_cell(key, make_cluster(key)),
            selector,
            num_parents=self.num_parents,
            inspirations=lambda population: self._select_inspirations(selector),
        )

    def _make_niches(
        self, rng: Random, profilers: cluster.ClusterProfilers
    ) -> tuple[cluster.NicheKey, Callable[[Hashable], cluster.ListableCluster]]:
        match self.kind:
            case "grid":
                niche_key = cluster.FeatureBins(make_features(self.features, self.num_references), self.num_bins)
                return niche_key, lambda key: cluster.EliteCluster(rng, profilers)
            case "front":
                value = self._compute_value
                make_elite = partial(cluster.EliteCluster, rng, profilers, ties=True)
                return self._get_objectives, lambda key: make_elite(value=partial(value, key))
            case "clusters":
                return cluster.by_signature, lambda key: cluster.DefaultCluster(rng, profilers)

    def _get_objectives(self, fn: function.Function) -> Sequence[Hashable]:
        """Returns one key per instance; with a single instance, the score and one key per metric."""
        evaluation = fn.evaluation
        if evaluation is None:
            return ()
        if len(evaluation.scores) > 1:
            return [("instance", index) for index in range(len(evaluation.scores))]
        return [("score",), *(("metric", name) for name in sorted(evaluation.metrics) if name not in self.features)]

    def _compute_value(self, key: Hashable, fn: function.Function) -> float:
        evaluation = fn.evaluation
        match key:
            case ("instance", int(index)) if evaluation:
                return evaluation.scores[index]
            case ("metric", str(name)) if evaluation:
                return self.metric_value(name, evaluation.metrics[name])
        return function.get_fitness(fn)

    def _select_inspirations(self, selector: ExploreExploitSelector) -> Mapping[str, Sequence[function.Function]]:
        """Returns the best programs, random ones, and inspirations from cells near the parents."""
        top, neighbors = selector.get_best(self.num_top), selector.sample_neighbors(self.num_diverse)
        roles = {"top": top, "diverse": selector.sample_any(self.num_diverse), "inspirations": neighbors}
        return {role: fns for role, fns in roles.items() if fns}


def make_emigrant_selector(rate: float) -> Callable[[archipelago.Island], Sequence[function.Function]]:
    """Returns a selector of emigrants: a share of the best cells, at least one; migrants never leave again."""

    def select_emigrants(island: archipelago.Island) -> Sequence[function.Function]:
        selector = getattr(island.population, "selector", None)
        if not isinstance(selector, ExploreExploitSelector):
            return [island.best_fn()]
        best = selector.get_best(max(1, math.ceil(rate * selector.num_cells)))
        return [fn for fn in best if fn.candidate and fn.candidate.island == island.index]

    return select_emigrants
