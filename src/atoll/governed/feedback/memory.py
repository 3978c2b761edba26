"""Feedback inside one process."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from atoll.governed.feedback.record import Feedback, check, check_entity, encode
from atoll.governed.logs.entry import in_utc
from atoll.governed.logs.files import now


class MemoryFeedback:
    """A channel that ends with the process. Also holds what `add` brings with its own times: fixtures, imports."""

    def __init__(self, *records: Feedback, clock: Callable[[], datetime] = now) -> None:
        self._clock = clock
        self._kept: dict[str, list[Feedback]] = {}
        self.add(*records)

    def add(self, *records: Feedback) -> None:
        for each in records:
            check(each.entity, each.metric, each.value, each.confidence)
            self._kept.setdefault(each.entity, []).append(each)

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
        encode(made)  # refuses what no other channel could keep
        self.add(made)
        return made

    def query(self, entity: str, since: datetime, metric: str = "") -> Sequence[Feedback]:
        check_entity(entity)
        found = (each for each in self._kept.get(entity, ()) if each.timestamp >= in_utc(since))
        return sorted((each for each in found if metric in ("", each.metric)), key=lambda each: each.timestamp)

    def entities(self) -> Sequence[str]:
        return sorted(self._kept)
