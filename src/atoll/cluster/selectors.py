"""Selectors draw the clusters that give the parents, with the published probabilities, in O(log n) per draw."""

import itertools
import math
import sys
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from random import Random
from typing import Protocol

_DECAY = [math.exp(-2.0 * depth) for depth in range(64)]  # weight of a layer of height 2 T, by its depth


class Selector(Protocol):
    """Draws clusters by their scores and sizes."""

    def set(self, index: int, score: float, size: int) -> None:
        """Adds the cluster `index` (the next one) or changes an earlier one; amortized O(log n)."""

    def select(self, k: int, registered: int) -> Sequence[int]:
        """Draws up to k clusters; `registered` is the number of functions ever added. Amortized O(log n)."""

    def clear(self) -> None:
        """Removes all clusters."""


class SumTree:
    """Weights by index; sets and draws in O(log n).

    Each node is the sum of its two children, so setting a weight to 0 and back leaves no rounding error.
    """

    def __init__(self) -> None:
        self._num_leaves, self._nodes = 1, [0.0, 0.0]

    @property
    def total(self) -> float:
        return self._nodes[1]

    def __getitem__(self, index: int) -> float:
        return self._nodes[self._num_leaves + index]

    def set(self, index: int, weight: float) -> None:
        if index >= self._num_leaves:
            self.fill([*self._nodes[self._num_leaves :], *[0.0] * max(self._num_leaves, index + 1 - self._num_leaves)])
        nodes, position = self._nodes, self._num_leaves + index
        nodes[position] = weight
        while position > 1:
            position >>= 1
            nodes[position] = nodes[2 * position] + nodes[2 * position + 1]

    def fill(self, weights: Sequence[float]) -> None:
        """Sets all weights at once, in O(n)."""
        self._num_leaves = 1 << max(0, len(weights) - 1).bit_length()
        nodes = [0.0] * self._num_leaves + list(weights) + [0.0] * (self._num_leaves - len(weights))
        for position in range(self._num_leaves - 1, 0, -1):
            nodes[position] = nodes[2 * position] + nodes[2 * position + 1]
        self._nodes = nodes

    def draw(self, rng: Random) -> int:
        """Returns an index with probability weight / total; the total must be above 0."""
        nodes, position, remaining_weight = self._nodes, 1, rng.random() * self._nodes[1]
        while position < self._num_leaves:
            position *= 2
            if remaining_weight >= nodes[position] and nodes[position + 1] > 0.0:
                remaining_weight -= nodes[position]
                position += 1
        return position - self._num_leaves


class WeightSelector:
    """Draws a cluster with probability proportional to `weight(score, size)`; uniformly by default."""

    def __init__(
        self, rng: Random, weight: Callable[[float, int], float] = lambda score, size: 1.0, *, replace: bool = False
    ) -> None:
        self._rng, self._weight, self._replace = rng, weight, replace
        self.clear()

    def clear(self) -> None:
        self._tree = SumTree()

    def set(self, index: int, score: float, size: int) -> None:
        self._tree.set(index, self._weight(score, size))

    def select(self, k: int, registered: int) -> Sequence[int]:
        drawn: list[int] = []
        weights: list[float] = []
        while len(drawn) < k and self._tree.total > 0.0:
            drawn.append(self._tree.draw(self._rng))
            weights.append(self._tree[drawn[-1]])
            if not self._replace:
                self._tree.set(drawn[-1], 0.0)
        for index, weight in zip(drawn, weights, strict=True):
            self._tree.set(index, weight)
        return drawn


class RankedClusters:
    """Clusters by score, best first, equals in order of arrival; in buckets, so that a change moves few of them."""

    MAX_BUCKET_SIZE = 1024

    def __init__(self) -> None:
        self._scores: list[float] = []
        self._buckets: list[list[tuple[float, int]]] = [[]]  # of (-score, index); only a single bucket may be empty

    def __len__(self) -> int:
        return len(self._scores)

    def set(self, index: int, score: float) -> None:
        if index < len(self._scores):
            self.remove(index)
        self._scores[index : index + 1] = [max(score, -sys.float_info.max)]  # a missing score is finite
        self.insert(index)

    def insert(self, index: int) -> None:
        pair = (-self._scores[index], index)
        bucket_index = self._find_bucket(pair)
        bucket = self._buckets[bucket_index]
        insort(bucket, pair)
        if len(bucket) > self.MAX_BUCKET_SIZE:
            half = self.MAX_BUCKET_SIZE // 2
            self._buckets[bucket_index : bucket_index + 1] = [bucket[:half], bucket[half:]]

    def remove(self, index: int) -> None:
        pair = (-self._scores[index], index)
        bucket_index = self._find_bucket(pair)
        bucket = self._buckets[bucket_index]
        del bucket[bisect_left(bucket, pair)]
        if not bucket and len(self._buckets) > 1:
            del self._buckets[bucket_index]

    def get_at_rank(self, rank: int) -> tuple[int, float]:
        """Returns the cluster at a rank, and its score."""
        for bucket in self._buckets:
            if rank < len(bucket):
                return bucket[rank][1], -bucket[rank][0]
            rank -= len(bucket)
        raise IndexError(rank)

    def count_at_or_above(self, bounds: Iterable[float]) -> Iterator[int]:
        """Yields the number of scores at or above each bound; bounds must fall."""
        above, buckets = 0, iter(self._buckets)
        bucket = next(buckets)
        for bound in bounds:
            while bucket and bucket[-1][0] <= -bound:
                above += len(bucket)
                bucket = next(buckets, [])
            yield above + bisect_right(bucket, (-bound, sys.maxsize))

    def _find_bucket(self, pair: tuple[float, int]) -> int:
        return bisect_right(self._buckets, pair, lo=1, key=itemgetter(0)) - 1


class _RankedSelector:
    """Ranking shared by the selectors by score."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.clear()

    def clear(self) -> None:
        self._ranking = RankedClusters()

    def set(self, index: int, score: float, size: int) -> None:
        self._ranking.set(index, score)


class SoftmaxSelector(_RankedSelector):
    """Draws a cluster with softmax(score / T), T = init * (1 - (registered mod period) / period), as FunSearch.

    Exact rejection sampling in at most e^2 tries on average: scores are grouped from the top in layers of height 2 T.
    A layer is drawn as if all its clusters had its upper score, then a cluster uniformly, accepted by its distance to
    that score. Layers below double precision are ignored, so about 25 remain for any number of clusters. A draw
    depends on the scores, not on earlier draws, so a resumed run draws the same.
    """

    def __init__(
        self, rng: Random, initial_temperature: float = 0.1, period: int = 30_000, *, replace: bool = True
    ) -> None:
        super().__init__(rng)
        self._initial_temperature, self._period, self._replace = initial_temperature, period, replace

    def get_temperature(self, registered: int) -> float:
        return self._initial_temperature * (1 - registered % self._period / self._period)

    def select(self, k: int, registered: int) -> Sequence[int]:
        temperature, count = self.get_temperature(registered), min(k, len(self._ranking))
        if self._replace and count:
            layers = self._compute_layers(temperature, len(self._ranking))
            return [self._draw(layers, temperature) for _ in range(count)]
        drawn: list[int] = []
        top = self._ranking.get_at_rank(0)[1] if count else 0.0
        # A cluster whose probability is 0 in double precision is never drawn, even if few are left.
        while len(drawn) < count and (self._ranking.get_at_rank(0)[1] - top) / temperature > -745.0:
            drawn.append(self._draw(self._compute_layers(temperature, len(self._ranking) - len(drawn)), temperature))
            self._ranking.remove(drawn[-1])
        for index in drawn:
            self._ranking.insert(index)
        return drawn

    def _compute_layers(self, temperature: float, count: int) -> list[tuple[float, int, int, int]]:
        """Returns (cumulative weight, depth, first rank, end rank) of the layers that are not empty."""
        top = self._ranking.get_at_rank(0)[1]
        layers: list[tuple[float, int, int, int]] = []
        total, first = 0.0, 0
        bounds = (top - 2.0 * temperature * depth for depth in itertools.count(1))
        for depth, end in enumerate(self._ranking.count_at_or_above(bounds)):
            if end > first:
                total += (end - first) * _DECAY[depth]
                layers.append((total, depth, first, end))
                first = end
            if (count - end) * _DECAY[depth] < total * 1e-18:
                return layers
        return layers

    def _draw(self, layers: Sequence[tuple[float, int, int, int]], temperature: float) -> int:
        top = self._ranking.get_at_rank(0)[1]
        while True:
            drawn = (self._rng.random() * layers[-1][0], sys.maxsize, 0, 0)
            _, depth, first, end = layers[bisect_right(layers, drawn, hi=len(layers) - 1)]
            index, score = self._ranking.get_at_rank(self._rng.randrange(first, end))
            if self._rng.random() < math.exp(min(0.0, (score - top) / temperature + 2.0 * depth)):
                return index


class RankSelector(_RankedSelector):
    """Draws by rank: P(rank r) is proportional to exp(-r / max(1, spread * clusters)), for any scale of scores.

    A second draw uses the ranks of the remaining clusters, so no cluster is drawn twice.
    """

    def __init__(self, rng: Random, spread: float = 0.1) -> None:
        super().__init__(rng)
        self._spread = spread

    def select(self, k: int, registered: int) -> Sequence[int]:
        count = len(self._ranking)
        log_q = -1.0 / max(1.0, self._spread * count)
        ranks: list[int] = []
        for num_remaining in range(count, max(0, count - k), -1):
            u = self._rng.random() * -math.expm1(num_remaining * log_q)  # inverse of a truncated geometric
            rank = min(int(math.log1p(-u) / log_q), num_remaining - 1)
            for earlier_rank in sorted(ranks):
                rank += rank >= earlier_rank
            ranks.append(rank)
        return [self._ranking.get_at_rank(rank)[0] for rank in ranks]
