"""Reflectors: statistics per entity and metric, and any function as a reflector."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Event, Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atoll import errors
from atoll.governed.errors import check_cancelled
from atoll.governed.evidence import day_files
from atoll.governed.evidence.replay_report import ReplayEvent
from atoll.governed.statistics import Moments, normal_quantile

ACCURACY = 0.01  # maximum relative error of a quantile
MAX_BUCKETS = 1024  # per sign; beyond this the smallest magnitudes share a bucket
MIN_MAGNITUDE = 1e-12  # smaller magnitudes count as 0

_base = (1 + ACCURACY) / (1 - ACCURACY)
_log_base = math.log(_base)


class QuantileSketch:
    """Quantiles with a relative error of at most one per cent, by counts in geometric buckets.

    The buckets of DDSketch (Masson, Rim and Lee, 2019). The order of the values does not matter.
    """

    __slots__ = ("_negative", "_num_zero", "_positive")

    def __init__(self) -> None:
        self._positive: dict[int, int] = {}
        self._negative: dict[int, int] = {}
        self._num_zero = 0

    def add(self, values: NDArray[np.float64]) -> None:
        positive, negative = values[values > MIN_MAGNITUDE], -values[values < -MIN_MAGNITUDE]
        self._num_zero += len(values) - len(positive) - len(negative)
        for buckets, magnitudes in ((self._positive, positive), (self._negative, negative)):
            if len(magnitudes):
                indices, counts = np.unique(
                    np.ceil(np.log(magnitudes) / _log_base).astype(np.int64), return_counts=True
                )
                for index, count in zip(indices.tolist(), counts.tolist(), strict=True):
                    buckets[index] = buckets.get(index, 0) + count
                _shrink(buckets)

    def quantile(self, fraction: float) -> float:
        """Returns a quantile; 0 without values."""
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
        sketch._positive = dict(map(tuple, data[0]))
        sketch._negative = dict(map(tuple, data[1]))
        sketch._num_zero = data[2]
        return sketch

    def merge(self, other: "QuantileSketch") -> None:
        """Adds the counts of another sketch."""
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


BLOCK_SIZE = 64  # values added together; each block is compared with all earlier values to detect drift
DRIFT_ALPHA = 0.01  # approximate probability that a stream without drift is ever flagged


class MetricStats:
    """Count, sum, mean, variance, bounds, quantiles and drift in constant memory.

    Values are buffered into blocks, since adding them one by one takes ten times as long.
    """

    __slots__ = (
        "_buffer",
        "_max",
        "_min",
        "_moments",
        "_num_blocks",
        "_sketch",
        "_sum",
        "is_drifting",
        "last",
        "pending",
    )

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
            # The k-th block gets 1/(k(k+1)) of alpha, so the sum over all blocks is alpha.
            level = DRIFT_ALPHA / (self._num_blocks * (self._num_blocks - 1))
            self.is_drifting = _has_drifted(self._moments, block.moments, level)
        self._merge_block(block)

    def _merge_block(self, block: "ValueBlock") -> None:
        self._moments.merge(block.moments)
        self._sketch.add(block.values)
        self._sum += block.sum
        self._min, self._max = min(self._min, block.min), max(self._max, block.max)

    def summarize(self) -> "MetricSummary":
        """Returns the statistics including buffered values; changes nothing."""
        copy = MetricStats.from_data(self.to_data())
        if copy._buffer:
            copy._merge_block(copy._make_block())
        return MetricSummary(copy._moments, copy._sketch, copy._sum, copy._min, copy._max)

    def to_data(self) -> Sequence[Any]:
        last = None if self.last is None else day_files.to_micros(self.last)
        bounds = [self._sum, *(None if math.isinf(bound) else bound for bound in (self._min, self._max))]
        flags = [self._num_blocks, self.is_drifting, self.pending, last]
        return [list(self._buffer), self._moments.to_data(), self._sketch.to_data(), bounds, flags]

    @classmethod
    def from_data(cls, data: Sequence[Any]) -> "MetricStats":
        stats = cls()
        stats._buffer = list(data[0])
        stats._moments = Moments(*data[1])
        stats._sketch = QuantileSketch.from_data(data[2])
        stats._sum, low, high = data[3]
        stats._min, stats._max = math.inf if low is None else low, -math.inf if high is None else high
        stats._num_blocks, stats.is_drifting, stats.pending, last = data[4]
        stats.last = None if last is None else day_files.from_micros(last)
        return stats


class ValueBlock:
    """Values that are added together."""

    __slots__ = ("max", "min", "moments", "sum", "values")

    def __init__(self, values: Any) -> None:
        mean = float(values.mean())
        self.values, self.moments = values, Moments(len(values), mean, float(((values - mean) ** 2).sum()))
        self.sum, self.min, self.max = float(values.sum()), float(values.min()), float(values.max())


class MetricSummary:
    """Statistics of a metric at one time."""

    __slots__ = ("max", "min", "moments", "sketch", "sum")

    def __init__(self, moments: Moments, sketch: QuantileSketch, total: float, low: float, high: float) -> None:
        self.moments, self.sketch, self.sum = moments, sketch, total
        self.min, self.max = (low, high) if moments.count else (0.0, 0.0)


def _has_drifted(previous: Moments, block: Moments, level: float) -> bool:
    """Compares two means by Welch's test with a normal approximation."""
    spread = previous.variance / previous.count + block.variance / block.count
    if not spread:
        return previous.mean != block.mean
    return abs(block.mean - previous.mean) / math.sqrt(spread) > -normal_quantile(level / 2)


PENDING_METRIC = ""  # metric that counts decisions without feedback
ANY_POLICY = ""  # policy version that means all
QUANTILES = (0.05, 0.5, 0.95)


@dataclass(frozen=True, slots=True)
class Stats:
    """Statistics of one metric of one entity; all 0 if unknown.

    Attributes:
        pending_count: Decisions without feedback; counted per entity under the metric "".
        last_timestamp: Latest decision or feedback.
        variance: Unbiased.
        p05, p50, p95: Quantiles with a relative error of one per cent.
        is_drifting: A block of 64 values differed significantly from all earlier ones.
    """

    count: int = 0
    sum: float = 0.0
    mean: float = 0.0
    min: float = 0.0
    max: float = 0.0
    pending_count: int = 0
    last_timestamp: datetime | None = None
    variance: float = 0.0
    p05: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    is_drifting: bool = False

    @property
    def deviation(self) -> float:
        return math.sqrt(self.variance)


class AggregatorReflector:
    """Statistics per entity and metric, optionally per policy version. Thread-safe.

    Args:
        by_policy: Also split by the policy version of the decisions.
    """

    def __init__(self, *, by_policy: bool = False) -> None:
        self._stats_by_key: dict[tuple[str, str, str], MetricStats] = {}
        self._by_policy, self._lock = by_policy, Lock()
        self._num_pending = 0  # over all entities; mostly 0, which saves a lookup

    def on_event(self, event: ReplayEvent) -> None:
        entry, feedback = event.log, event.feedback
        entity, timestamp = entry.entity, entry.timestamp
        with self._lock:
            if feedback is None:
                self._count_pending(entity, timestamp)
                return
            if feedback.timestamp > timestamp:
                timestamp = feedback.timestamp
            if self._num_pending:
                pending_stats = self._stats_by_key.get((entity, PENDING_METRIC, ANY_POLICY))
                if pending_stats is not None and pending_stats.pending:
                    pending_stats.pending -= 1
                    self._num_pending -= 1
            self._add((entity, feedback.metric, ANY_POLICY), feedback.value, timestamp)
            if self._by_policy and entry.policy_version:
                self._add((entity, feedback.metric, entry.policy_version), feedback.value, timestamp)

    def _count_pending(self, entity: str, timestamp: datetime) -> None:
        metric_stats = self._stats_by_key.setdefault((entity, PENDING_METRIC, ANY_POLICY), MetricStats())
        metric_stats.pending += 1
        self._num_pending += 1
        if metric_stats.last is None or timestamp > metric_stats.last:
            metric_stats.last = timestamp

    def _add(self, key: tuple[str, str, str], value: float, timestamp: datetime) -> None:
        metric_stats = self._stats_by_key.get(key)
        if metric_stats is None:
            metric_stats = self._stats_by_key[key] = MetricStats()
        metric_stats.add(value)
        if metric_stats.last is None or timestamp > metric_stats.last:
            metric_stats.last = timestamp

    def stats(self, entity: str, metric: str, *, policy_version: str = ANY_POLICY) -> Stats:
        """Returns the current statistics; the metric "" has the pending count."""
        with self._lock:
            metric_stats = self._stats_by_key.get((entity, metric, policy_version))
            if metric_stats is None:
                return Stats()
            summary = metric_stats.summarize()
            last = metric_stats.last
            is_drifting = metric_stats.is_drifting
            pending = metric_stats.pending
        moments = summary.moments
        quantiles = (summary.sketch.quantile(share) for share in QUANTILES) if moments.count else (0.0, 0.0, 0.0)
        p05, p50, p95 = (min(max(quantile, summary.min), summary.max) for quantile in quantiles)
        return Stats(
            count=moments.count,
            sum=summary.sum,
            mean=moments.mean,
            min=summary.min,
            max=summary.max,
            pending_count=pending,
            last_timestamp=last,
            variance=moments.variance,
            p05=p05,
            p50=p50,
            p95=p95,
            is_drifting=is_drifting,
        )

    def list_entities(self) -> Sequence[str]:
        """Returns all entities, sorted."""
        with self._lock:
            return sorted({entity for entity, _, _ in self._stats_by_key})

    def metrics(self, entity: str) -> Sequence[str]:
        """Returns the metrics of an entity, sorted, without the pending one."""
        with self._lock:
            return sorted(
                {metric for owner, metric, _ in self._stats_by_key if owner == entity and metric != PENDING_METRIC}
            )

    def policies(self, entity: str, metric: str) -> Sequence[str]:
        """Returns the policy versions of an entity and metric, sorted."""
        with self._lock:
            return sorted(
                {version for *pair, version in self._stats_by_key if pair == [entity, metric] and version != ANY_POLICY}
            )

    def reset(self) -> None:
        """Removes all statistics."""
        with self._lock:
            self._stats_by_key.clear()
            self._num_pending = 0

    def state(self) -> Any:
        with self._lock:
            return [[*key, metric_stats.to_data()] for key, metric_stats in sorted(self._stats_by_key.items())]

    def restore(self, state: Any) -> None:
        with self._lock:
            self._stats_by_key = {(row[0], row[1], row[2]): MetricStats.from_data(row[3]) for row in state}
            self._num_pending = sum(metric_stats.pending for metric_stats in self._stats_by_key.values())


class FuncReflector:
    """Calls a function with every event.

    Args:
        fn: The function.
        stop: Checked before each call.
    """

    def __init__(self, fn: Callable[[ReplayEvent], object], *, stop: Event | None = None) -> None:
        if not callable(fn):
            raise errors.SetupError(f"FuncReflector needs a function, not {fn!r}.")
        self._fn, self._stop = fn, stop

    @property
    def on_event(self) -> Callable[[ReplayEvent], object]:
        """Handler of events; without a stop event it is the function itself, which is faster.

        Raises:
            Cancelled: The stop event was set before a call.
        """
        return self._fn if self._stop is None else self._call_unless_cancelled

    def _call_unless_cancelled(self, event: ReplayEvent) -> None:
        check_cancelled(self._stop)
        self._fn(event)
