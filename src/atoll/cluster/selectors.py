"""Which clusters give the parents: exactly as published, and never by touching all clusters in a step."""

import itertools
import math
import sys
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from random import Random
from typing import Protocol

_DECAY = [math.exp(-2.0 * depth) for depth in range(64)]  # how much a layer 2 T deep weighs, by its depth


class Selector(Protocol):
    """Draws clusters by their scores and sizes."""

    def set(self, index: int, score: float, size: int) -> None:
        """Adds the cluster `index` (the next one) or changes an earlier one; O(log n) amortised."""

    def select(self, k: int, registered: int) -> Sequence[int]:
        """Draws up to k clusters; `registered` functions were ever added. O(log n) amortised."""

    def clear(self) -> None:
        """Forgets all clusters."""


class SumTree:
    """Weights by index: set one and draw one in O(log n).

    Each node is the sum of its two, never a running total: a weight set to 0 and back leaves no rounding behind.
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
    """Clusters by score, best first and of equals the earlier first, in buckets: no change moves them all."""

    MAX_BUCKET_SIZE = 1024

    def __init__(self) -> None:
        self._scores: list[float] = []
        self._buckets: list[list[tuple[float, int]]] = [[]]  # of (-score, index); only the sole one may be empty

    def __len__(self) -> int:
        return len(self._scores)

    def set(self, index: int, score: float) -> None:
        if index < len(self._scores):
            self.remove(index)
        self._scores[index : index + 1] = [max(score, -sys.float_info.max)]  # what has no score is far below, not -inf
        self.insert(index)

    def insert(self, index: int) -> None:
        pair = (-self._scores[index], index)
        bucket_index = self._find_bucket(pair)
        bucket = self._buckets[bucket_index]
        insort(bucket, pair)
        if len(bucket) > self.MAX_BUCKET_SIZE:
            self._buckets[bucket_index : bucket_index + 1] = [
                bucket[: self.MAX_BUCKET_SIZE // 2],
                bucket[self.MAX_BUCKET_SIZE // 2 :],
            ]

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
        """Yields how many scores are at or above each bound; bounds fall."""
        above = bucket_index = 0
        for bound in bounds:
            while (
                bucket_index < len(self._buckets)
                and self._buckets[bucket_index]
                and self._buckets[bucket_index][-1][0] <= -bound
            ):
                above += len(self._buckets[bucket_index])
                bucket_index += 1
            bucket = self._buckets[bucket_index] if bucket_index < len(self._buckets) else []
            yield above + bisect_right(bucket, (-bound, sys.maxsize))

    def _find_bucket(self, pair: tuple[float, int]) -> int:
        return bisect_right(self._buckets, pair, lo=1, key=itemgetter(0)) - 1


class _RankedSelector:
    """What the choosers by score share."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.clear()

    def clear(self) -> None:
        self._ranking = RankedClusters()

    def set(self, index: int, score: float, size: int) -> None:
        self._ranking.set(index, score)


class SoftmaxSelector(_RankedSelector):
    """Draws a cluster with softmax(score / T), T = init * (1 - (registered mod period) / period), as FunSearch.

    Scores are seen in layers 2 T deep, from the top. A layer is drawn as if all in it were as good as its upper edge,
    then one of it uniformly, which is kept with what it lacks to that edge: the softmax exactly, by rejection, in at
    most e^2 tries on average. Layers too deep to matter to a double are left out, so there are about 25 whatever the
    number of clusters. A draw hangs on the scores alone, not on draws before it: a resume, which draws nothing, goes on
    alike.
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
        # A cluster so far below the top that its probability is 0 in a double is not drawn, however few are left.
        while len(drawn) < count and (self._ranking.get_at_rank(0)[1] - top) / temperature > -745.0:
            drawn.append(self._draw(self._compute_layers(temperature, len(self._ranking) - len(drawn)), temperature))
            self._ranking.remove(drawn[-1])
        for index in drawn:
            self._ranking.insert(index)
        return drawn

    def _compute_layers(self, temperature: float, count: int) -> list[tuple[float, int, int, int]]:
        """Returns (weight of this layer and those above, depth, first rank, end rank) of layers that are not empty."""
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
            layer_index = bisect_right(
                layers, (self._rng.random() * layers[-1][0], sys.maxsize, 0, 0), hi=len(layers) - 1
            )
            _, depth, first, end = layers[layer_index]
            index, score = self._ranking.get_at_rank(self._rng.randrange(first, end))
            if self._rng.random() < math.exp(min(0.0, (score - top) / temperature + 2.0 * depth)):
                return index


class RankSelector(_RankedSelector):
    """Draws by rank alone: P(rank r) proportional to exp(-r / max(1, spread * clusters)), whatever the scores' scale.

    A second draw ranks those that are left, so no cluster is drawn twice.
    """

    def __init__(self, rng: Random, spread: float = 0.1) -> None:
        super().__init__(rng)
        self._spread = spread

    def select(self, k: int, registered: int) -> Sequence[int]:
        count = len(self._ranking)
        log_q = -1.0 / max(1.0, self._spread * count)
        ranks: list[int] = []
        for num_remaining in range(count, max(0, count - k), -1):
            u = self._rng.random() * -math.expm1(num_remaining * log_q)  # the inverse of the truncated geometric
            rank = min(int(math.log1p(-u) / log_q), num_remaining - 1)
            for earlier_rank in sorted(ranks):
                rank += rank >= earlier_rank
            ranks.append(rank)
        return [self._ranking.get_at_rank(rank)[0] for rank in ranks]
