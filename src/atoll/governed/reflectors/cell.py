"""The running statistics of one metric of one entity."""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
from scipy import special

from atoll.governed.logs import moments
from atoll.governed.reflectors.sketch import QuantileSketch
from atoll.governed.statistics import Moments

BLOCK_SIZE = 64  # values taken in together; also what is compared with all that came before, for drift
DRIFT_ALPHA = 0.01  # the probability that a stream without drift is ever flagged, roughly


class MetricStats:
    """Count, sum, mean, variance, bounds, quantiles and drift, in constant memory.

    Values wait until there is a block of them: taking them in one by one would cost ten times as much.
    """

    __slots__ = ("_num_blocks", "_max", "_min", "_moments", "_sketch", "_sum", "_buffer", "is_drifting", "last", "pending")

    def __init__(self) -> None:
        self._buffer: list[float] = []
        self._moments, self._sketch = Moments(), QuantileSketch()
        self._sum, self._min, self._max = 0.0, math.inf, -math.inf
        self._num_blocks, self.is_drifting, self.pending = 0, False, 0
        self.last: datetime | None = None

    def add(self, value: float) -> None:
        buffer = self._buffer
        buffer.append(value)
        if len(buffer) == BLOCK_SIZE:
            self._add_block(self._make_block())
            buffer.clear()

    def _make_block(self) -> "ValueBlock":
        return ValueBlock(np.array(self._buffer))

    def _add_block(self, block: "ValueBlock") -> None:
        self._num_blocks += 1
        if self._num_blocks > 1 and not self.is_drifting:
            # Alpha is spent over all blocks, 1/(k(k+1)) of it on the k-th: their sum is alpha, however long it goes.
            level = DRIFT_ALPHA / (self._num_blocks * (self._num_blocks - 1))
            self.is_drifting = _has_drifted(self._moments, block.moments, level)
        self._merge_block(block)

    def _merge_block(self, block: "ValueBlock") -> None:
        self._moments.merge(block.moments)
        self._sketch.add(block.values)
        self._sum += block.sum
        self._min, self._max = min(self._min, block.min), max(self._max, block.max)

    def summarize(self) -> "MetricSummary":
        """Returns the numbers with what still waits, and leaves the cell as it is."""
        copy = MetricStats.from_data(self.to_data())
        if copy._buffer:
            copy._merge_block(copy._make_block())
        return MetricSummary(copy._moments, copy._sketch, copy._sum, copy._min, copy._max)

    def to_data(self) -> Sequence[Any]:
        last = None if self.last is None else moments.to_micros(self.last)
        bounds = [self._sum, *(None if math.isinf(bound) else bound for bound in (self._min, self._max))]
        flags = [self._num_blocks, self.is_drifting, self.pending, last]
        return [list(self._buffer), self._moments.to_data(), self._sketch.to_data(), bounds, flags]

    @classmethod
    def from_data(cls, data: Sequence[Any]) -> "MetricStats":
        stats = cls()
        stats._buffer, stats._moments, stats._sketch = list(data[0]), Moments(*data[1]), QuantileSketch.from_data(data[2])
        stats._sum, low, high = data[3]
        stats._min, stats._max = math.inf if low is None else low, -math.inf if high is None else high
        stats._num_blocks, stats.is_drifting, stats.pending, last = data[4]
        stats.last = None if last is None else moments.from_micros(last)
        return stats


class ValueBlock:
    """Values that are taken in together."""

    __slots__ = ("max", "min", "moments", "sum", "values")

    def __init__(self, values: Any) -> None:
        mean = float(values.mean())
        self.values, self.moments = values, Moments(len(values), mean, float(((values - mean) ** 2).sum()))
        self.sum, self.min, self.max = float(values.sum()), float(values.min()), float(values.max())


class MetricSummary:
    """The numbers of a cell at one moment."""

    __slots__ = ("max", "min", "moments", "sketch", "sum")

    def __init__(self, moments: Moments, sketch: QuantileSketch, total: float, low: float, high: float) -> None:
        self.moments, self.sketch, self.sum = moments, sketch, total
        self.min, self.max = (low, high) if moments.count else (0.0, 0.0)


def _has_drifted(previous: Moments, block: Moments, level: float) -> bool:
    """Compares two means by Welch's test, with the normal in place of Student's distribution."""
    spread = previous.variance / previous.count + block.variance / block.count
    if not spread:
        return previous.mean != block.mean
    return abs(block.mean - previous.mean) / math.sqrt(spread) > -float(special.ndtri(level / 2))
