"""Feedback in the store's database, found by entity and time."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from atoll import store
from atoll.governed.feedback.record import Feedback, check_measurement, check_entity, decode, encode
from atoll.governed.logs import moments
from atoll.governed.logs.entry import to_utc
from atoll.governed.logs.files import now
from atoll.store import timeline

STREAM = "feedback"


class SQLFeedback:
    """A channel in a store: `StoredFeedback(store.open("atoll.db"))`; an index finds an entity's rows.

    Args:
        stream: Several channels may share a store under different names.
        clock: Stamps what is reported.
    """

    def __init__(self, run_store: store.Store, *, stream: str = STREAM, clock: Callable[[], datetime] = now) -> None:
        self._stream, self._clock = timeline.EventStream(run_store.database, stream), clock

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
        self.add(record)
        return record

    def add(self, *records: Feedback) -> None:
        """Writes records that have their times already, in one commit: what is imported.

        Raises:
            SetupError: One of them is no measurement.
            StoreFailed: They could not be written.
        """
        for each in records:
            check_measurement(each.entity, each.metric, each.value, each.confidence)
        self._stream.append(
            [
                timeline.StreamEvent(
                    moments.to_micros(record.timestamp), record.entity, record.metric, encode(record).decode().rstrip("\n")
                )
                for record in records
            ]
        )

    def query(self, entity: str, since: datetime, metric: str = "") -> Sequence[Feedback]:
        check_entity(entity)
        rows = self._stream.list_by_entity(entity, moments.to_micros(since), metric)
        return [decode(row.data.encode()) for row in rows]

    def list_entities(self) -> Sequence[str]:
        return self._stream.list_entities()
