"""Descriptive statistics of replayed feedback: what a reflector would see, before any learns."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Any

from atoll.governed.reflectors.cell import Cell
from atoll.governed.replay.event import ReplayEvent

PENDING = ""  # the metric under which decisions without feedback are counted
ANY = ""  # the policy version that stands for all
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


class Aggregator:
    """Keeps statistics per entity and metric, and beside them per policy version. Thread-safe; writes nowhere.

    Args:
        by_policy: Keeps the split by the policy version of the decisions too.
    """

    def __init__(self, *, by_policy: bool = False) -> None:
        self._cells: dict[tuple[str, str, str], Cell] = {}
        self._by_policy, self._lock = by_policy, Lock()
        self._num_pending = 0  # of all entities: mostly none, and then nobody need look

    def on_event(self, event: ReplayEvent) -> None:
        entry, found = event.log, event.feedback
        entity, moment = entry.entity, entry.timestamp
        with self._lock:
            if found is None:
                self._wait(entity, moment)
                return
            if found.timestamp > moment:
                moment = found.timestamp
            if self._num_pending:
                waiting = self._cells.get((entity, PENDING, ANY))
                if waiting is not None and waiting.pending:
                    waiting.pending -= 1
                    self._num_pending -= 1
            self._add((entity, found.metric, ANY), found.value, moment)
            if self._by_policy and entry.policy_version:
                self._add((entity, found.metric, entry.policy_version), found.value, moment)

    def _wait(self, entity: str, moment: datetime) -> None:
        cell = self._cells.setdefault((entity, PENDING, ANY), Cell())
        cell.pending += 1
        self._num_pending += 1
        if cell.last is None or moment > cell.last:
            cell.last = moment

    def _add(self, key: tuple[str, str, str], value: float, moment: datetime) -> None:
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = Cell()
        cell.add(value)
        if cell.last is None or moment > cell.last:
            cell.last = moment

    def stats(self, entity: str, metric: str, *, policy_version: str = ANY) -> Stats:
        """Returns a copy of what is known; the metric "" shows what is pending."""
        with self._lock:
            cell = self._cells.get((entity, metric, policy_version))
            if cell is None:
                return Stats()
            found, last, drifting, pending = cell.settled(), cell.last, cell.is_drifting, cell.pending
        moments = found.moments
        quantiles = (found.sketch.quantile(share) for share in QUANTILES) if moments.count else (0.0, 0.0, 0.0)
        p05, p50, p95 = (min(max(each, found.min), found.max) for each in quantiles)
        return Stats(
            count=moments.count,
            sum=found.sum,
            mean=moments.mean,
            min=found.min,
            max=found.max,
            pending_count=pending,
            last_timestamp=last,
            variance=moments.variance,
            p05=p05,
            p50=p50,
            p95=p95,
            is_drifting=drifting,
        )

    def entities(self) -> Sequence[str]:
        """Returns all entities, sorted."""
        with self._lock:
            return sorted({entity for entity, _, _ in self._cells})

    def metrics(self, entity: str) -> Sequence[str]:
        """Returns the metrics of an entity, sorted, without the one for what is pending."""
        with self._lock:
            return sorted({metric for owner, metric, _ in self._cells if owner == entity and metric != PENDING})

    def policies(self, entity: str, metric: str) -> Sequence[str]:
        """Returns the policy versions that the feedback of an entity is split by, sorted."""
        with self._lock:
            return sorted({version for *pair, version in self._cells if pair == [entity, metric] and version != ANY})

    def reset(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._cells.clear()
            self._num_pending = 0

    def state(self) -> Any:
        with self._lock:
            return [[*key, cell.to_data()] for key, cell in sorted(self._cells.items())]

    def restore(self, state: Any) -> None:
        with self._lock:
            self._cells = {(row[0], row[1], row[2]): Cell.from_data(row[3]) for row in state}
            self._num_pending = sum(cell.pending for cell in self._cells.values())
