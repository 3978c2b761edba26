"""Quantiles of a stream in bounded memory."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

ACCURACY = 0.01  # a quantile is off by at most this share of its own value
MAX_BUCKETS = 1024  # of each sign; with more, the smallest magnitudes share one
MIN_MAGNITUDE = 1e-12  # what is nearer to 0 counts as 0

_base = (1 + ACCURACY) / (1 - ACCURACY)
_log_base = math.log(_base)


class QuantileSketch:
    """Counts values in buckets that grow with them, so that every quantile is true within one per cent of itself.

    The buckets of DDSketch (Masson, Rim and Lee, 2019). Depends on the values alone and not on their order.
    """

    __slots__ = ("_positive", "_negative", "_num_zero")

    def __init__(self) -> None:
        self._positive: dict[int, int] = {}
        self._negative: dict[int, int] = {}
        self._num_zero = 0

    def add(self, values: NDArray[np.float64]) -> None:
        positive, negative = values[values > MIN_MAGNITUDE], -values[values < -MIN_MAGNITUDE]
        self._num_zero += len(values) - len(positive) - len(negative)
        for buckets, magnitudes in ((self._positive, positive), (self._negative, negative)):
            if len(magnitudes):
                indices, counts = np.unique(np.ceil(np.log(magnitudes) / _log_base).astype(np.int64), return_counts=True)
                for index, count in zip(indices.tolist(), counts.tolist(), strict=True):
                    buckets[index] = buckets.get(index, 0) + count
                _shrink(buckets)

    def quantile(self, fraction: float) -> float:
        """Returns the value below which a share of all lies; 0 if there are none."""
        positive, negative = sorted(self._positive.items()), sorted(self._negative.items(), reverse=True)
        ordered = [(-_get_bucket_value(index), count) for index, count in negative]
        ordered += [(0.0, self._num_zero)] + [(_get_bucket_value(index), count) for index, count in positive]
        remaining = fraction * (sum(count for _, count in ordered) - 1)
        for value, count in ordered:
            remaining -= count
            if count and remaining < 0:
                return value
        return ordered[-1][0]

    def to_data(self) -> Sequence[Any]:
        return [sorted(self._positive.items()), sorted(self._negative.items()), self._num_zero]

    @classmethod
    def from_data(cls, data: Sequence[Any]) -> "QuantileSketch":
        sketch = cls()
        sketch._positive, sketch._negative, sketch._num_zero = dict(map(tuple, data[0])), dict(map(tuple, data[1])), data[2]
        return sketch

    def merge(self, other: "QuantileSketch") -> None:
        """Takes in what another one has counted."""
        pairs: Sequence[tuple[dict[int, int], Mapping[int, int]]] = (
            (self._positive, other._positive),
            (self._negative, other._negative),
        )
        for own_buckets, other_buckets in pairs:
            for index, count in other_buckets.items():
                own_buckets[index] = own_buckets.get(index, 0) + count
            _shrink(own_buckets)
        self._num_zero += other._num_zero


def _get_bucket_value(index: int) -> float:
    return float(2 * _base**index / (_base + 1))


def _shrink(buckets: dict[int, int]) -> None:
    if len(buckets) > MAX_BUCKETS:
        ordered = sorted(buckets)
        smallest_index = ordered[len(ordered) - MAX_BUCKETS]
        for index in ordered[: len(ordered) - MAX_BUCKETS]:
            buckets[smallest_index] += buckets.pop(index)
