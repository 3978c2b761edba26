"""Quantiles of a stream in bounded memory."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

ACCURACY = 0.01  # a quantile is off by at most this share of its own value
MAX_BUCKETS = 1024  # of each sign; with more, the smallest magnitudes share one
SMALLEST = 1e-12  # what is nearer to 0 counts as 0

_base = (1 + ACCURACY) / (1 - ACCURACY)
_log_base = math.log(_base)


class Sketch:
    """Counts values in buckets that grow with them, so that every quantile is true within one per cent of itself.

    The buckets of DDSketch (Masson, Rim and Lee, 2019). Depends on the values alone and not on their order.
    """

    __slots__ = ("_above", "_below", "_num_zero")

    def __init__(self) -> None:
        self._above: dict[int, int] = {}
        self._below: dict[int, int] = {}
        self._num_zero = 0

    def add(self, values: NDArray[np.float64]) -> None:
        positive, negative = values[values > SMALLEST], -values[values < -SMALLEST]
        self._num_zero += len(values) - len(positive) - len(negative)
        for buckets, found in ((self._above, positive), (self._below, negative)):
            if len(found):
                places, counts = np.unique(np.ceil(np.log(found) / _log_base).astype(np.int64), return_counts=True)
                for place, count in zip(places.tolist(), counts.tolist(), strict=True):
                    buckets[place] = buckets.get(place, 0) + count
                _shrink(buckets)

    def quantile(self, share: float) -> float:
        """Returns the value below which a share of all lies; 0 if there are none."""
        above, below = sorted(self._above.items()), sorted(self._below.items(), reverse=True)
        ordered = [(-_middle(place), count) for place, count in below]
        ordered += [(0.0, self._num_zero)] + [(_middle(place), count) for place, count in above]
        left = share * (sum(count for _, count in ordered) - 1)
        for value, count in ordered:
            left -= count
            if count and left < 0:
                return value
        return ordered[-1][0]

    def to_data(self) -> Sequence[Any]:
        return [sorted(self._above.items()), sorted(self._below.items()), self._num_zero]

    @classmethod
    def from_data(cls, data: Sequence[Any]) -> "Sketch":
        made = cls()
        made._above, made._below, made._num_zero = dict(map(tuple, data[0])), dict(map(tuple, data[1])), data[2]
        return made

    def merge(self, other: "Sketch") -> None:
        """Takes in what another one has counted."""
        pairs: Sequence[tuple[dict[int, int], Mapping[int, int]]] = (
            (self._above, other._above),
            (self._below, other._below),
        )
        for mine, theirs in pairs:
            for place, count in theirs.items():
                mine[place] = mine.get(place, 0) + count
            _shrink(mine)
        self._num_zero += other._num_zero


def _middle(place: int) -> float:
    return float(2 * _base**place / (_base + 1))


def _shrink(buckets: dict[int, int]) -> None:
    if len(buckets) > MAX_BUCKETS:
        ordered = sorted(buckets)
        keep = ordered[len(ordered) - MAX_BUCKETS]
        for place in ordered[: len(ordered) - MAX_BUCKETS]:
            buckets[keep] += buckets.pop(place)
