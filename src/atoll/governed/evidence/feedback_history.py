"""Feedback of an entity in columns: 16 bytes per measurement, a tenth of Python objects. Spills to disk."""

import os
import tempfile
import weakref
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from atoll.governed.evidence import day_files
from atoll.governed.evidence.feedback import Feedback, FeedbackChannel
from atoll.governed.evidence.logs import to_utc

PAGE_SIZE = 256  # numbers per page
NUMBER_BYTES = 8  # bytes per number

type NumberArray = "array[Any] | PagedArray"


class PagedArray:
    """Numbers in a file with one page in memory. Sequential access reads each page once."""

    __slots__ = ("_count", "_disk_array", "_file_offset", "_low", "_page", "_size")

    def __init__(self, disk_array: "DiskArray", file_offset: int, typecode: str, size: int) -> None:
        self._disk_array, self._file_offset, self._size = disk_array, file_offset, size
        self._low = self._count = 0
        self._page = array(typecode)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Any:
        page_index = index - self._low
        if 0 <= page_index < self._count:
            return self._page[page_index]
        if not 0 <= index < self._size:
            raise IndexError(index)
        self._low = index // PAGE_SIZE * PAGE_SIZE
        self._count = min(PAGE_SIZE, self._size - self._low)
        data = self._disk_array.read(self._file_offset + self._low * NUMBER_BYTES, self._count * NUMBER_BYTES)
        self._page = array(self._page.typecode, data)
        return self._page[index - self._low]


class DiskArray:
    """Temporary file of number arrays. It is deleted with the last array that uses it."""

    def __init__(self) -> None:
        with tempfile.TemporaryFile(prefix="atoll-spill-") as file:
            self._fd = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._fd)
        self._end = 0

    def add(self, numbers: NumberArray) -> NumberArray:
        """Moves numbers of eight bytes each into the file."""
        if isinstance(numbers, PagedArray):
            return numbers
        data, file_offset = memoryview(numbers).cast("B"), self._end
        while data:
            num_written = os.pwrite(self._fd, data, self._end)
            self._end, data = self._end + num_written, data[num_written:]
        return PagedArray(self, file_offset, numbers.typecode, len(numbers))

    def read(self, offset: int, count: int) -> bytes:
        return os.pread(self._fd, count, offset)


OBJECT_BYTES = 400  # approximate bytes of a measurement with meta or an id, besides its columns
COLUMN_BYTES = 600
MAX_TIME = 1 << 62  # later than any time
NO_EXTRAS = (None, None, None, None)


class MetricColumn:
    """Measurements of one metric of one entity, oldest first.

    Attributes:
        arrays: Times, values and confidences; the last is empty if all confidences are 1.
    """

    __slots__ = ("_cached_match", "_entity", "_extras", "_high", "_last", "_low", "arrays", "metric", "size")

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
        self._last, self._low, self._high = 0, 0, -1  # matches no time, so the first lookup searches
        self._cached_match: Feedback | None = None

    @property
    def times(self) -> NumberArray:
        return self.arrays[0]

    def value(self, index: int) -> float:
        return float(self.arrays[1][index])

    def confidence(self, index: int) -> float:
        return float(self.arrays[2][index]) if len(self.arrays[2]) else 1.0

    def find_first(self, start: int, end: int) -> Feedback | None:
        """Returns the earliest measurement from `start` on, if it is before `end`."""
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
        """Moves to the next index if it is the right one, which is the common case."""
        next_index = self._last + 1
        if self._low <= self._high < start and next_index < self.size:
            next_time = self.arrays[0][next_index]
            if start <= next_time:
                self._last, self._low, self._high = next_index, self._high, next_time
                return True
        return False

    def find_index(self, start: int) -> int:
        """Returns the index of the earliest measurement at or after a time; `size` if there is none.

        Logs are mostly in order of time, so the search starts at the last result.
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
        """Returns one measurement."""
        meta, decision_id, observed_at, recorded = self._extras.get(index, NO_EXTRAS)
        timestamp = recorded or day_files.from_micros(self.times[index])
        value, confidence = self.value(index), self.confidence(index)
        return Feedback(timestamp, self._entity, self.metric, value, confidence, meta, decision_id, observed_at)

    def group_by_decision(self) -> dict[str, list[int]]:
        """Returns the indices of measurements by decision id."""
        indices: dict[str, list[int]] = {}
        for index, extras in self._extras.items():
            if extras[1] is not None:
                indices.setdefault(extras[1], []).append(index)
        return indices

    @property
    def num_bytes(self) -> int:
        num_in_memory = sum(
            len(numbers) if isinstance(numbers, array) else min(PAGE_SIZE, len(numbers)) for numbers in self.arrays
        )
        return COLUMN_BYTES + NUMBER_BYTES * num_in_memory + OBJECT_BYTES * len(self._extras)


class History:
    """All feedback of one entity, one column per metric, sorted by metric.

    Args:
        by_observed: Use the observed time, where given, instead of the record time.
    """

    __slots__ = ("_decisions", "columns")

    def __init__(self, entity: str, records: Sequence[Feedback], *, by_observed: bool = False) -> None:
        if by_observed:
            records = sorted(records, key=lambda record: to_utc(record.observed_at or record.timestamp))
        grouped: dict[str, list[Feedback]] = {}
        for record in records:
            grouped.setdefault(record.metric, []).append(record)
        self.columns: Sequence[MetricColumn] = [
            MetricColumn(entity, metric, _get_times(grouped[metric], by_observed), grouped[metric])
            for metric in sorted(grouped)
        ]
        self._decisions: Sequence[dict[str, list[int]]] | None = None

    @property
    def num_bytes(self) -> int:
        return sum(column.num_bytes for column in self.columns)

    def find_by_decision(self, decision_id: str) -> Sequence[tuple[MetricColumn, Sequence[int]]]:
        """Returns the measurements with a decision id, by metric, oldest first."""
        if self._decisions is None:
            self._decisions = [column.group_by_decision() for column in self.columns]
        pairs = zip(self.columns, self._decisions, strict=True)
        return [(column, indices[decision_id]) for column, indices in pairs if decision_id in indices]


def _get_times(records: Sequence[Feedback], by_observed: bool) -> Sequence[int]:
    epoch, unit = day_files.EPOCH, day_files.MICROSECOND
    if by_observed:
        return [(to_utc(record.observed_at or record.timestamp) - epoch) // unit for record in records]
    return [(record.timestamp - epoch) // unit for record in records]


NO_HISTORY = History("", ())


DEFAULT_BYTES = 64 << 20  # four million measurements


class FeedbackCache:
    """Queries a channel once per entity.

    When the histories grow too large, their numbers move to a file. If that is not enough, for example because of meta
    data, the least recently used histories are removed.

    Attributes:
        histories: By entity; least recently used first once one was removed.
        num_queries: Queries sent to the channel.
        num_evicted: Removed histories; using one again costs another query.
    """

    def __init__(self, channel: FeedbackChannel, since: datetime, *, by_observed: bool, max_bytes: int) -> None:
        self._channel, self._since = channel, since
        self._by_observed, self._max_bytes = by_observed, max_bytes
        self.histories: OrderedDict[str, History] = OrderedDict()
        self._in_memory: list[History] = []  # entities with numbers in memory
        self._disk_array: DiskArray | None = None
        self._used_bytes = self.num_queries = self.num_evicted = 0

    def get(self, entity: str) -> History:
        history = self.histories.get(entity)
        if history is not None:
            if self.num_evicted:  # the order of use is tracked only after the first eviction
                self.histories.move_to_end(entity)
            return history
        return self._load(entity) if entity else NO_HISTORY

    def _load(self, entity: str) -> History:
        self.num_queries += 1
        records = self._channel.query(entity, self._since)
        history = self.histories[entity] = History(entity, records, by_observed=self._by_observed)
        self._in_memory.append(history)
        self._used_bytes += history.num_bytes
        while self._used_bytes > self._max_bytes and self._in_memory:
            self._spill_to_disk()
        while self._used_bytes > self._max_bytes and len(self.histories) > 1:
            self._used_bytes -= self.histories.popitem(last=False)[1].num_bytes
            self.num_evicted += 1
        return history

    def _spill_to_disk(self) -> None:
        """Moves half of the numbers in memory to the file."""
        disk_array = self._disk_array = self._disk_array or DiskArray()
        half = (len(self._in_memory) + 1) // 2
        for column in (column for history in self._in_memory[:half] for column in history.columns):
            self._used_bytes -= column.num_bytes
            column.arrays = tuple(disk_array.add(numbers) for numbers in column.arrays)
            self._used_bytes += column.num_bytes
        del self._in_memory[:half]
