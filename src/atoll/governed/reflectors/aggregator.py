"""Descriptive statistics of replayed feedback: what a reflector would see, before any learns."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Any

from atoll.governed.reflectors.cell import MetricStats
from atoll.governed.replay.event import ReplayEvent

PENDING_METRIC = ""  # the metric under which decisions without feedback are counted
ANY_POLICY = ""  # the policy version that stands for all
QUANTILES = (0.05, 0.5, 0.95)


@dataclass(frozen=True, slots=True)
class Stats:
    """A copy of what is known of one metric of one entity; all 0 for what is unknown.

    Attributes:
        pending_count: Decisions still without feedback; counted per entity, under the metric "".
        last_timestamp: The latest of all decisions and feedback seen.
        variance: Unbiased.
        p05, p50, p95: Quantiles, true within one per cent of themselves.
        is_drifting: Some block of 64 values differed from all before it, by more than chance explains.
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
    """Keeps statistics per entity and metric, and beside them per policy version. Thread-safe; writes nowhere.

    Args:
        by_policy: Keeps the split by the policy version of the decisions too.
    """

    def __init__(self, *, by_policy: bool = False) -> None:
        self._stats_by_key: dict[tuple[str, str, str], MetricStats] = {}
        self._by_policy, self._lock = by_policy, Lock()
        self._num_pending = 0  # of all entities: mostly none, and then nobody need look

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
        """Returns a copy of what is known; the metric "" shows what is pending."""
        with self._lock:
            metric_stats = self._stats_by_key.get((entity, metric, policy_version))
            if metric_stats is None:
                return Stats()
            summary, last, is_drifting, pending = metric_stats.summarize(), metric_stats.last, metric_stats.is_drifting, metric_stats.pending
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
        """Returns the metrics of an entity, sorted, without the one for what is pending."""
        with self._lock:
            return sorted({metric for owner, metric, _ in self._stats_by_key if owner == entity and metric != PENDING_METRIC})

    def policies(self, entity: str, metric: str) -> Sequence[str]:
        """Returns the policy versions that the feedback of an entity is split by, sorted."""
        with self._lock:
            return sorted({version for *pair, version in self._stats_by_key if pair == [entity, metric] and version != ANY_POLICY})

    def reset(self) -> None:
        """Forgets everything."""
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
