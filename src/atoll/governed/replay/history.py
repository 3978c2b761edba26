"""The feedback of one entity as columns: 16 bytes a measurement, where objects take ten times as much."""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from atoll.governed.feedback.record import Feedback
from atoll.governed.logs import moments
from atoll.governed.logs.entry import in_utc
from atoll.governed.replay.spill import PAGE, WIDTH, Numbers

OBJECT_BYTES = 400  # what a measurement with a meta or an id takes beside its columns, roughly
COLUMN_BYTES = 600
LATEST = 1 << 62  # later than every moment
NOTHING = (None, None, None, None)


class Column:
    """The measurements of one metric of one entity, oldest first.

    Attributes:
        numbers: When each was, its value, and how sure it is; the last is empty where all are sure.
    """

    __slots__ = ("_entity", "_high", "_hit", "_last", "_low", "_rest", "metric", "numbers", "size")

    def __init__(self, entity: str, metric: str, times: Sequence[int], records: Sequence[Feedback]) -> None:
        self._entity, self.metric, self.size = entity, metric, len(records)
        unsure = any(each.confidence != 1.0 for each in records)
        self.numbers: Sequence[Numbers] = (
            array("q", times),
            array("d", [each.value for each in records]),
            array("d", [each.confidence for each in records] if unsure else ()),
        )
        self._rest: dict[int, tuple[Any, ...]] = {
            place: (each.meta, each.decision_id, each.observed_at, each.timestamp)
            for place, each in enumerate(records)
            if each.meta is not None or each.decision_id is not None or each.observed_at is not None
        }
        self._last, self._low, self._high = 0, 0, -1  # no moment lies between: the first look finds its place
        self._hit: Feedback | None = None

    @property
    def at(self) -> Numbers:
        return self.numbers[0]

    def value(self, place: int) -> float:
        return float(self.numbers[1][place])

    def confidence(self, place: int) -> float:
        return float(self.numbers[2][place]) if len(self.numbers[2]) else 1.0

    def touch(self, at: int, end: int) -> Feedback | None:
        """Returns the earliest measurement from a moment on, if it came before the end."""
        if not self._low < at <= self._high:
            self._hit = None
            if not self._goes_on(at):
                place = self.first(at)
                self._low = self.at[place - 1] if place else -LATEST
                self._high = self.at[place] if place < self.size else LATEST
        if self._high >= end:
            return None
        if self._hit is None:
            self._hit = self.feedback(self._last)
        return self._hit

    def _goes_on(self, at: int) -> bool:
        """Takes the next place if a moment lies there, as it mostly does, with one look at the numbers."""
        following = self._last + 1
        if self._low <= self._high < at and following < self.size:
            later = self.numbers[0][following]
            if at <= later:
                self._last, self._low, self._high = following, self._high, later
                return True
        return False

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
        self._low, self._high = 0, -1
        self._last = place
        return place

    def feedback(self, place: int) -> Feedback:
        """Returns a measurement whole."""
        meta, decision, observed, recorded = self._rest.get(place, NOTHING)
        moment = recorded or moments.from_micros(self.at[place])
        value, sure = self.value(place), self.confidence(place)
        return Feedback(moment, self._entity, self.metric, value, sure, meta, decision, observed)

    def decisions(self) -> dict[str, list[int]]:
        """Returns the places of measurements that name a decision."""
        found: dict[str, list[int]] = {}
        for place, rest in self._rest.items():
            if rest[1] is not None:
                found.setdefault(rest[1], []).append(place)
        return found

    @property
    def num_bytes(self) -> int:
        at_hand = sum(len(each) if isinstance(each, array) else min(PAGE, len(each)) for each in self.numbers)
        return COLUMN_BYTES + WIDTH * at_hand + OBJECT_BYTES * len(self._rest)


class History:
    """All that is known of one entity, a column per metric, sorted by metric.

    Args:
        by_observed: Counts a measurement from when it happened, where somebody said so, and not from its record.
    """

    __slots__ = ("_decisions", "columns")

    def __init__(self, entity: str, records: Sequence[Feedback], *, by_observed: bool = False) -> None:
        if by_observed:
            records = sorted(records, key=lambda each: in_utc(each.observed_at or each.timestamp))
        grouped: dict[str, list[Feedback]] = {}
        for each in records:
            grouped.setdefault(each.metric, []).append(each)
        self.columns: Sequence[Column] = [
            Column(entity, metric, _times(grouped[metric], by_observed), grouped[metric]) for metric in sorted(grouped)
        ]
        self._decisions: Sequence[dict[str, list[int]]] | None = None

    @property
    def num_bytes(self) -> int:
        return sum(column.num_bytes for column in self.columns)

    def of_decision(self, id: str) -> Sequence[tuple[Column, Sequence[int]]]:
        """Returns the measurements that name a decision, by metric, oldest first."""
        if self._decisions is None:
            self._decisions = [column.decisions() for column in self.columns]
        pairs = zip(self.columns, self._decisions, strict=True)
        return [(column, places[id]) for column, places in pairs if id in places]


def _times(records: Sequence[Feedback], by_observed: bool) -> Sequence[int]:
    epoch, unit = moments.EPOCH, moments.MICROSECOND
    if by_observed:
        return [(in_utc(each.observed_at or each.timestamp) - epoch) // unit for each in records]
    return [(each.timestamp - epoch) // unit for each in records]


NO_HISTORY = History("", ())
