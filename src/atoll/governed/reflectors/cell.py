"""The running statistics of one metric of one entity."""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
from scipy import special

from atoll.governed.logs import moments
from atoll.governed.reflectors.sketch import Sketch
from atoll.governed.statistics import Moments

BLOCK = 64  # values taken in together; also what is compared with all that came before, for drift
ALPHA = 0.01  # the probability that a stream without drift is ever flagged, roughly


class Cell:
    """Count, sum, mean, variance, bounds, quantiles and drift, in constant memory.

    Values wait until there is a block of them: taking them in one by one would cost ten times as much.
    """

    __slots__ = ("_blocks", "_max", "_min", "_moments", "_sketch", "_sum", "_waiting", "is_drifting", "last", "pending")

    def __init__(self) -> None:
        self._waiting: list[float] = []
        self._moments, self._sketch = Moments(), Sketch()
        self._sum, self._min, self._max = 0.0, math.inf, -math.inf
        self._blocks, self.is_drifting, self.pending = 0, False, 0
        self.last: datetime | None = None

    def add(self, value: float) -> None:
        waiting = self._waiting
        waiting.append(value)
        if len(waiting) == BLOCK:
            self._take(self._block())
            waiting.clear()

    def _block(self) -> "Block":
        return Block(np.array(self._waiting))

    def _take(self, block: "Block") -> None:
        self._blocks += 1
        if self._blocks > 1 and not self.is_drifting:
            # Alpha is spent over all blocks, 1/(k(k+1)) of it on the k-th: their sum is alpha, however long it goes.
            level = ALPHA / (self._blocks * (self._blocks - 1))
            self.is_drifting = _differs(self._moments, block.moments, level)
        self._fold(block)

    def _fold(self, block: "Block") -> None:
        self._moments.merge(block.moments)
        self._sketch.add(block.values)
        self._sum += block.sum
        self._min, self._max = min(self._min, block.min), max(self._max, block.max)

    def settled(self) -> "Settled":
        """Returns the numbers with what still waits, and leaves the cell as it is."""
        copy = Cell.from_data(self.to_data())
        if copy._waiting:
            copy._fold(copy._block())
        return Settled(copy._moments, copy._sketch, copy._sum, copy._min, copy._max)

    def to_data(self) -> Sequence[Any]:
        last = None if self.last is None else moments.to_micros(self.last)
        bounds = [self._sum, *(None if math.isinf(each) else each for each in (self._min, self._max))]
        flags = [self._blocks, self.is_drifting, self.pending, last]
        return [list(self._waiting), self._moments.to_data(), self._sketch.to_data(), bounds, flags]

    @classmethod
    def from_data(cls, data: Sequence[Any]) -> "Cell":
        made = cls()
        made._waiting, made._moments, made._sketch = list(data[0]), Moments(*data[1]), Sketch.from_data(data[2])
        made._sum, low, high = data[3]
        made._min, made._max = math.inf if low is None else low, -math.inf if high is None else high
        made._blocks, made.is_drifting, made.pending, last = data[4]
        made.last = None if last is None else moments.from_micros(last)
        return made


class Block:
    """Values that are taken in together."""

    __slots__ = ("max", "min", "moments", "sum", "values")

    def __init__(self, values: Any) -> None:
        mean = float(values.mean())
        self.values, self.moments = values, Moments(len(values), mean, float(((values - mean) ** 2).sum()))
        self.sum, self.min, self.max = float(values.sum()), float(values.min()), float(values.max())


class Settled:
    """The numbers of a cell at one moment."""

    __slots__ = ("max", "min", "moments", "sketch", "sum")

    def __init__(self, moments: Moments, sketch: Sketch, total: float, low: float, high: float) -> None:
        self.moments, self.sketch, self.sum = moments, sketch, total
        self.min, self.max = (low, high) if moments.count else (0.0, 0.0)


def _differs(before: Moments, block: Moments, level: float) -> bool:
    """Compares two means by Welch's test, with the normal in place of Student's distribution."""
    spread = before.variance / before.count + block.variance / block.count
    if not spread:
        return before.mean != block.mean
    return abs(block.mean - before.mean) / math.sqrt(spread) > -float(special.ndtri(level / 2))
