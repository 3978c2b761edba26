"""The feedback of one entity as columns: 16 bytes a measurement, where objects take ten times as much."""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from atoll.governed.feedback.record import Feedback
from atoll.governed.logs import moments
from atoll.governed.logs.entry import to_utc
from atoll.governed.replay.spill import PAGE_SIZE, NUMBER_BYTES, NumberArray

OBJECT_BYTES = 400  # what a measurement with a meta or an id takes beside its columns, roughly
COLUMN_BYTES = 600
MAX_TIME = 1 << 62  # later than every moment
NO_EXTRAS = (None, None, None, None)


class MetricColumn:
    """The measurements of one metric of one entity, oldest first.

    Attributes:
        numbers: When each was, its value, and how sure it is; the last is empty where all are sure.
    """

    __slots__ = ("_entity", "_high", "_cached_match", "_last", "_low", "_extras", "metric", "arrays", "size")

    def __init__(self, entity: str, metric: str, times: Sequence[int], records: Sequence[Feedback]) -> None:
        self._entity, self.metric, self.size = entity, metric, len(records)
        has_confidence = any(record.confidence != 1.0 for record in records)
        self.arrays: Sequence[NumberArray] = (
            array("q", times),
            array("d", [record.value for record in records]),
            array("d", [record.confidence for record in records] if has_confidence else ()),
        )
        self._extras: dict[int, tuple[Any, ...]] = {
            index: (record.meta, record.decision_id, record.observed_at, record.timestamp)
            for index, record in enumerate(records)
            if record.meta is not None or record.decision_id is not None or record.observed_at is not None
        }
        self._last, self._low, self._high = 0, 0, -1  # no moment lies between: the first look finds its place
        self._cached_match: Feedback | None = None

    @property
    def times(self) -> NumberArray:
        return self.arrays[0]

    def value(self, index: int) -> float:
        return float(self.arrays[1][index])

    def confidence(self, index: int) -> float:
        return float(self.arrays[2][index]) if len(self.arrays[2]) else 1.0

    def find_first(self, start: int, end: int) -> Feedback | None:
        """Returns the earliest measurement from a moment on, if it came before the end."""
        if not self._low < start <= self._high:
            self._cached_match = None
            if not self._advance(start):
                index = self.find_index(start)
                self._low = self.times[index - 1] if index else -MAX_TIME
                self._high = self.times[index] if index < self.size else MAX_TIME
        if self._high >= end:
            return None
        if self._cached_match is None:
            self._cached_match = self.feedback(self._last)
        return self._cached_match

    def _advance(self, start: int) -> bool:
        """Takes the next place if a moment lies there, as it mostly does, with one look at the numbers."""
        next_index = self._last + 1
        if self._low <= self._high < start and next_index < self.size:
            next_time = self.arrays[0][next_index]
            if start <= next_time:
                self._last, self._low, self._high = next_index, self._high, next_time
                return True
        return False

    def find_index(self, start: int) -> int:
        """Returns the place of the earliest measurement at a moment or after it; `size` if there is none.

        Logs come mostly in the order of time, so it lies where the last look ended or just behind.
        """
        index, times = self._last, self.times
        if index and times[index - 1] >= start:
            index = bisect_left(times, start, 0, index)
        elif index < self.size and times[index] < start:
            index += 1
            if index < self.size and times[index] < start:
                index = bisect_left(times, start, index)
        self._low, self._high = 0, -1
        self._last = index
        return index

    def feedback(self, index: int) -> Feedback:
        """Returns a measurement whole."""
        meta, decision_id, observed_at, recorded = self._extras.get(index, NO_EXTRAS)
        timestamp = recorded or moments.from_micros(self.times[index])
        value, confidence = self.value(index), self.confidence(index)
        return Feedback(timestamp, self._entity, self.metric, value, confidence, meta, decision_id, observed_at)

    def group_by_decision(self) -> dict[str, list[int]]:
        """Returns the places of measurements that name a decision."""
        indices: dict[str, list[int]] = {}
        for index, extras in self._extras.items():
            if extras[1] is not None:
                indices.setdefault(extras[1], []).append(index)
        return indices

    @property
    def num_bytes(self) -> int:
        num_in_memory = sum(len(numbers) if isinstance(numbers, array) else min(PAGE_SIZE, len(numbers)) for numbers in self.arrays)
        return COLUMN_BYTES + NUMBER_BYTES * num_in_memory + OBJECT_BYTES * len(self._extras)


class History:
    """All that is known of one entity, a column per metric, sorted by metric.

    Args:
        by_observed: Counts a measurement from when it happened, where somebody said so, and not from its record.
    """

    __slots__ = ("_decisions", "columns")

    def __init__(self, entity: str, records: Sequence[Feedback], *, by_observed: bool = False) -> None:
        if by_observed:
            records = sorted(records, key=lambda record: to_utc(record.observed_at or record.timestamp))
        grouped: dict[str, list[Feedback]] = {}
        for each in records:
            grouped.setdefault(each.metric, []).append(each)
        self.columns: Sequence[MetricColumn] = [
            MetricColumn(entity, metric, _get_times(grouped[metric], by_observed), grouped[metric]) for metric in sorted(grouped)
        ]
        self._decisions: Sequence[dict[str, list[int]]] | None = None

    @property
    def num_bytes(self) -> int:
        return sum(column.num_bytes for column in self.columns)

    def find_by_decision(self, decision_id: str) -> Sequence[tuple[MetricColumn, Sequence[int]]]:
        """Returns the measurements that name a decision, by metric, oldest first."""
        if self._decisions is None:
            self._decisions = [column.group_by_decision() for column in self.columns]
        pairs = zip(self.columns, self._decisions, strict=True)
        return [(column, indices[decision_id]) for column, indices in pairs if decision_id in indices]


def _get_times(records: Sequence[Feedback], by_observed: bool) -> Sequence[int]:
    epoch, unit = moments.EPOCH, moments.MICROSECOND
    if by_observed:
        return [(to_utc(record.observed_at or record.timestamp) - epoch) // unit for record in records]
    return [(record.timestamp - epoch) // unit for record in records]


NO_HISTORY = History("", ())
