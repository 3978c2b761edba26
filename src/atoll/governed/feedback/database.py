"""Feedback in the store's database, found by entity and time."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from atoll import store
from atoll.governed.feedback.record import Feedback, check, check_entity, decode, encode
from atoll.governed.logs import moments
from atoll.governed.logs.entry import in_utc
from atoll.governed.logs.files import now
from atoll.store import timeline

STREAM = "feedback"


class StoredFeedback:
    """A channel in a store: `StoredFeedback(store.open("atoll.db"))`; an index finds an entity's rows.

    Args:
        stream: Several channels may share a store under different names.
        clock: Stamps what is reported.
    """

    def __init__(self, kept: store.Store, *, stream: str = STREAM, clock: Callable[[], datetime] = now) -> None:
        self._timeline, self._clock = timeline.Timeline(kept.database, stream), clock

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
        noted = dict(meta) if meta else None
        made = Feedback(in_utc(self._clock()), entity, metric, value, confidence, noted, decision_id, observed_at)
        self.add(made)
        return made

    def add(self, *records: Feedback) -> None:
        """Writes records that have their times already, in one commit: what is imported.

        Raises:
            SetupError: One of them is no measurement.
            StoreFailed: They could not be written.
        """
        for each in records:
            check(each.entity, each.metric, each.value, each.confidence)
        self._timeline.append(
            [
                timeline.Moment(
                    moments.to_micros(each.timestamp), each.entity, each.metric, encode(each).decode().rstrip("\n")
                )
                for each in records
            ]
        )

    def query(self, entity: str, since: datetime, metric: str = "") -> Sequence[Feedback]:
        check_entity(entity)
        found = self._timeline.of(entity, moments.to_micros(since), metric)
        return [decode(row.data.encode()) for row in found]

    def entities(self) -> Sequence[str]:
        return self._timeline.entities()
