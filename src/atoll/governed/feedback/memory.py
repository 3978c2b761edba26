"""Feedback inside one process."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from atoll.governed.feedback.record import Feedback, check_measurement, check_entity, encode
from atoll.governed.logs.entry import to_utc
from atoll.governed.logs.files import now


class MemoryFeedback:
    """A channel that ends with the process. Also holds what `add` brings with its own times: fixtures, imports."""

    def __init__(self, *records: Feedback, clock: Callable[[], datetime] = now) -> None:
        self._clock = clock
        self._records: dict[str, list[Feedback]] = {}
        self.add(*records)

    def add(self, *records: Feedback) -> None:
        for record in records:
            check_measurement(record.entity, record.metric, record.value, record.confidence)
            self._records.setdefault(record.entity, []).append(record)

    def report(
        self,
        entity: str,
        metric: str,
        value: float,
        confidence: float = 1.0,
        meta: Mapping[str, Any] | None = None,
        *,
        decision_id: str | None = None,
        observed_at: datetime | None = None,
    ) -> Feedback:
        meta_copy = dict(meta) if meta else None
        record = Feedback(to_utc(self._clock()), entity, metric, value, confidence, meta_copy, decision_id, observed_at)
        encode(record)  # refuses what no other channel could keep
        self.add(record)
        return record

    def query(self, entity: str, since: datetime, metric: str = "") -> Sequence[Feedback]:
        check_entity(entity)
        recent = (record for record in self._records.get(entity, ()) if record.timestamp >= to_utc(since))
        return sorted((record for record in recent if metric in ("", record.metric)), key=lambda record: record.timestamp)

    def list_entities(self) -> Sequence[str]:
        return sorted(self._records)
