"""The feedback of one entity as columns: 24 bytes a measurement, where objects take ten times as much."""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from atoll.governed.feedback.record import Feedback
from atoll.governed.logs import moments

OBJECT_BYTES = 400  # what a measurement with a meta or an id takes beside its columns, roughly
ROW_BYTES = 24
COLUMN_BYTES = 600


class Column:
    """The measurements of one metric of one entity, oldest first."""

    __slots__ = ("_entity", "_last", "_made", "_place", "_rest", "at", "confidence", "metric", "size", "value")

    def __init__(self, entity: str, metric: str) -> None:
        self._entity, self.metric, self.size = entity, metric, 0
        self.at, self.value, self.confidence = array("q"), array("d"), array("d")
        self._rest: dict[int, tuple[Any, ...]] = {}
        self._last, self._place = 0, -1
        self._made: Feedback | None = None

    def add(self, at: int, found: Feedback) -> None:
        self.at.append(at)
        self.value.append(found.value)
        self.confidence.append(found.confidence)
        if found.meta is not None or found.decision_id is not None or found.observed_at is not None:
            self._rest[self.size] = (found.meta, found.decision_id, found.observed_at, found.timestamp)
        self.size += 1

    def first(self, at: int) -> int:
        """Returns the place of the earliest measurement at a moment or after it; `size` if there is none.

        Logs come mostly in the order of time, so it lies where the last look ended or just behind.
        """
        place, times = self._last, self.at
        if place and times[place - 1] >= at:
            place = bisect_left(times, at, 0, place)
        elif place < self.size and times[place] < at:
            place += 1
            if place < self.size and times[place] < at:
                place = bisect_left(times, at, place)
        self._last = place
        return place

    def feedback(self, place: int) -> Feedback:
        """Returns a measurement whole; the same object as long as the same one is asked for."""
        if self._made is None or self._place != place:
            meta, decision, observed, recorded = self._rest.get(place, (None, None, None, None))
            moment = recorded or moments.from_micros(self.at[place])
            value, confidence = self.value[place], self.confidence[place]
            self._place = place
            self._made = Feedback(moment, self._entity, self.metric, value, confidence, meta, decision, observed)
        return self._made

    def decisions(self) -> dict[str, list[int]]:
        """Returns the places of measurements that name a decision."""
        found: dict[str, list[int]] = {}
        for place, rest in self._rest.items():
            if rest[1] is not None:
                found.setdefault(rest[1], []).append(place)
        return found

    @property
    def num_bytes(self) -> int:
        return COLUMN_BYTES + ROW_BYTES * self.size + OBJECT_BYTES * len(self._rest)


class History:
    """All that is known of one entity, a column per metric, sorted by metric.

    Args:
        by_observed: Counts a measurement from when it happened, where somebody said so, and not from its record.
    """

    __slots__ = ("_decisions", "columns", "num_bytes")

    def __init__(self, entity: str, records: Sequence[Feedback], *, by_observed: bool = False) -> None:
        made: dict[str, Column] = {}
        timed = [(moments.to_micros((by_observed and each.observed_at) or each.timestamp), each) for each in records]
        if by_observed:
            timed.sort(key=lambda pair: pair[0])
        for at, each in timed:
            column = made.get(each.metric)
            if column is None:
                column = made[each.metric] = Column(entity, each.metric)
            column.add(at, each)
        self.columns: Sequence[Column] = [made[metric] for metric in sorted(made)]
        self.num_bytes = sum(column.num_bytes for column in self.columns)
        self._decisions: Sequence[dict[str, list[int]]] | None = None

    def of_decision(self, id: str) -> Sequence[tuple[Column, Sequence[int]]]:
        """Returns the measurements that name a decision, by metric, oldest first."""
        if self._decisions is None:
            self._decisions = [column.decisions() for column in self.columns]
        pairs = zip(self.columns, self._decisions, strict=True)
        return [(column, places[id]) for column, places in pairs if id in places]


NO_HISTORY = History("", ())
