"""Which clusters give the parents: exactly as published, and never by touching all clusters in a step."""

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol


class Chooser(Protocol):
    """Draws clusters by their scores and sizes."""

    def set(self, index: int, score: float, size: int) -> None:
        """Adds the cluster `index` (the next one) or changes an earlier one; O(log n) amortised."""

    def choose(self, k: int, registered: int) -> Sequence[int]:
        """Draws up to k clusters; `registered` functions were ever added. O(log n) amortised."""

    def clear(self) -> None:
        """Forgets all clusters."""


class SumTree:
    """Weights by index: set one and draw one in O(log n).

    Each node is the sum of its two, never a running total: a weight set to 0 and back leaves no rounding behind.
    """

    def __init__(self) -> None:
        self._leaves, self._nodes = 1, [0.0, 0.0]

    @property
    def total(self) -> float:
        return self._nodes[1]

    def __getitem__(self, index: int) -> float:
        return self._nodes[self._leaves + index]

    def set(self, index: int, weight: float) -> None:
        if index >= self._leaves:
            self.fill([*self._nodes[self._leaves :], *[0.0] * max(self._leaves, index + 1 - self._leaves)])
        nodes, place = self._nodes, self._leaves + index
        nodes[place] = weight
        while place > 1:
            place >>= 1
            nodes[place] = nodes[2 * place] + nodes[2 * place + 1]

    def fill(self, weights: Sequence[float]) -> None:
        """Sets all weights at once, in O(n)."""
        self._leaves = 1 << max(0, len(weights) - 1).bit_length()
        nodes = [0.0] * self._leaves + list(weights) + [0.0] * (self._leaves - len(weights))
        for place in range(self._leaves - 1, 0, -1):
            nodes[place] = nodes[2 * place] + nodes[2 * place + 1]
        self._nodes = nodes

    def draw(self, rng: Random) -> int:
        """Returns an index with probability weight / total; the total must be above 0."""
        nodes, place, rest = self._nodes, 1, rng.random() * self._nodes[1]
        while place < self._leaves:
            place *= 2
            if rest >= nodes[place] and nodes[place + 1] > 0.0:
                rest -= nodes[place]
                place += 1
        return place - self._leaves


class WeightChooser:
    """Draws a cluster with probability proportional to `weight(score, size)`; uniformly by default."""

    def __init__(
        self, rng: Random, weight: Callable[[float, int], float] = lambda score, size: 1.0, *, replace: bool = False
    ) -> None:
        self._rng, self._weight, self._replace = rng, weight, replace
        self.clear()

    def clear(self) -> None:
        self._tree, self._weights, self._out = SumTree(), list[float](), list[int]()

    def set(self, index: int, score: float, size: int) -> None:
        self._weights[index : index + 1] = [self._weight(score, size)]
        self._tree.set(index, self._weights[index])

    def choose(self, k: int, registered: int) -> Sequence[int]:
        drawn: list[int] = []
        while len(drawn) < k and self._tree.total > 0.0:
            drawn.append(self._draw(registered))
            if not self._replace:
                self._out.append(drawn[-1])
                self._tree.set(drawn[-1], 0.0)
        while self._out:
            index = self._out.pop()
            self._tree.set(index, self._weigh(index))
        return drawn

    def _draw(self, registered: int) -> int:
        return self._tree.draw(self._rng)

    def _weigh(self, index: int) -> float:
        return self._weights[index]


class SoftmaxChooser(WeightChooser):
    """Draws a cluster with softmax(score / T), T = init * (1 - (registered mod period) / period), as FunSearch.

    The tree holds exp((score - reference) / T_built). While T falls below T_built a draw is kept with
    exp((score - top) (1/T - 1/T_built)), which is the softmax at T exactly. Once the draws thrown away have cost as
    much as building the tree anew would, it is built anew: O(log n) amortised.
    """

    def __init__(self, rng: Random, init: float = 0.1, period: int = 30_000, *, replace: bool = True) -> None:
        self._init, self._period = init, period
        super().__init__(rng, lambda score, size: score, replace=replace)

    def clear(self) -> None:
        super().clear()  # the weights are the scores here
        self._top, self._reference, self._built, self._wasted = -math.inf, 0.0, self._init, 0

    def temperature(self, registered: int) -> float:
        return self._init * (1 - registered % self._period / self._period)

    def set(self, index: int, score: float, size: int) -> None:
        self._weights[index : index + 1] = [score]
        self._top = max(self._top, score)  # an upper bound is enough: a tighter one only saves draws
        if (score - self._reference) / self._built > 600.0:
            self._build(self._built)
        self._tree.set(index, self._weigh(index))

    def choose(self, k: int, registered: int) -> Sequence[int]:
        # A tree built colder than now, or one whose scores all lie far below the reference: weights that small lose digits.
        if self.temperature(registered) > self._built or self._tree.total < 1e-200:
            self._build(self.temperature(registered))
        return super().choose(min(k, len(self._weights)), registered)

    def _draw(self, registered: int) -> int:
        temperature = self.temperature(registered)
        while True:
            index = self._tree.draw(self._rng)
            excess = (self._weights[index] - self._top) * (1 / temperature - 1 / self._built)
            if excess >= 0.0 or self._rng.random() < math.exp(excess):
                return index
            self._wasted += 1
            if self._wasted * 8 > len(self._weights) + 64:  # a draw costs about as much as building 8 leaves
                self._build(temperature)

    def _weigh(self, index: int) -> float:
        return math.exp((self._weights[index] - self._reference) / self._built)

    def _build(self, temperature: float) -> None:
        self._top = self._reference = max(self._weights, default=0.0)
        self._built, self._wasted = temperature, 0
        self._tree.fill([self._weigh(index) for index in range(len(self._weights))])
        for index in self._out:
            self._tree.set(index, 0.0)


class SortedPairs:
    """Pairs (score, index) in order, in buckets of at most 512: no addition or removal moves them all."""

    def __init__(self) -> None:
        self._buckets: list[list[tuple[float, int]]] = []
        self._lasts: list[tuple[float, int]] = []

    def add(self, pair: tuple[float, int]) -> None:
        if not self._buckets:
            self._buckets, self._lasts = [[pair]], [pair]
            return
        place = min(bisect_left(self._lasts, pair), len(self._buckets) - 1)
        bucket = self._buckets[place]
        insort(bucket, pair)
        if len(bucket) > 512:
            self._buckets.insert(place + 1, bucket[256:])
            del bucket[256:]
            self._lasts.insert(place, bucket[-1])
            place += 1
        self._lasts[place] = self._buckets[place][-1]

    def remove(self, pair: tuple[float, int]) -> None:
        place = bisect_left(self._lasts, pair)
        bucket = self._buckets[place]
        del bucket[bisect_left(bucket, pair)]
        if bucket:
            self._lasts[place] = bucket[-1]
        else:
            del self._buckets[place], self._lasts[place]

    def from_top(self, rank: int) -> tuple[float, int]:
        for bucket in reversed(self._buckets):
            if rank < len(bucket):
                return bucket[-1 - rank]
            rank -= len(bucket)
        raise IndexError(rank)


class RankChooser:
    """Draws by rank alone: P(rank r) proportional to exp(-r / max(1, spread * clusters)), whatever the scores' scale.

    A second draw ranks those that are left, so no cluster is drawn twice.
    """

    def __init__(self, rng: Random, spread: float = 0.1) -> None:
        self._rng, self._spread = rng, spread
        self.clear()

    def clear(self) -> None:
        self._sorted, self._scores = SortedPairs(), list[float]()

    def set(self, index: int, score: float, size: int) -> None:
        if index == len(self._scores):
            self._scores.append(score)
        elif self._scores[index] == score:
            return
        else:
            self._sorted.remove((self._scores[index], -index))
            self._scores[index] = score
        self._sorted.add((score, -index))  # of equal scores the earlier cluster ranks higher

    def choose(self, k: int, registered: int) -> Sequence[int]:
        count = len(self._scores)
        log_q = -1.0 / max(1.0, self._spread * count)
        ranks: list[int] = []
        for left in range(count, max(0, count - k), -1):
            u = self._rng.random() * -math.expm1(left * log_q)  # the inverse of the truncated geometric
            rank = min(int(math.log1p(-u) / log_q), left - 1)
            for taken in sorted(ranks):
                rank += rank >= taken
            ranks.append(rank)
        return [-self._sorted.from_top(rank)[1] for rank in ranks]
