"""Finding records of a kind, or with a word in them, among very many: newest first, and never for long.

The store has no index for this, since whoever writes a run would pay for it at each step. Instead
what was seen once is remembered: of every stretch of the journal how many records there are of each kind, and where
those are of which there are few. Stretches never change. A look takes its time at most, and says how far it came.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import NamedTuple

from atoll import store
from atoll.dashboard import response_cache
from atoll.store.records.queries import NumberedRecord, RecordQueries

SEGMENT_RECORDS = 32_768  # records of a stretch
MAX_INDEXED = 256  # of a kind in a stretch: so few are remembered one by one
TEXT_SEGMENT_RECORDS = 16_384  # records that are searched for a word at a time


class Segment(NamedTuple):
    """What was seen of `SPAN` records.

    Attributes:
        counts: How many there are, by kind.
        places: The numbers of those of which there are few, by kind.
    """

    counts: Mapping[str, int]
    positions: Mapping[str, Sequence[int]]


class SearchPage(NamedTuple):
    """What a look came upon.

    Attributes:
        events: Newest first.
        looked: The oldest number that was looked at; nothing newer than it was missed.
        is_done: There is nothing older that was not looked at.
    """

    events: Sequence[NumberedRecord]
    oldest_searched: int
    is_done: bool


class RecordSearch:
    """Looks through the journal of one run."""

    def __init__(self, run_store: store.Store, run: str) -> None:
        self.queries = RecordQueries(run_store, run)
        self._segments: dict[int, Segment] = {}
        self._lock = Lock()

    def search(self, kinds: Sequence[str], text: str, before: int, limit: int, seconds: float) -> SearchPage:
        """Looks for records older than one, for so many seconds at most.

        Args:
            kinds: Which are wanted; empty: all.
            words: What must stand in them; empty: anything.
            before: The number that all must be below.
            limit: How many at most.
        """
        deadline = time.monotonic() + seconds
        num_records = self.queries.get_end()
        end = min(before, num_records + 1)
        if not kinds and not text:
            records = self.queries.list_before(end, limit)
            return _make_page(records, records[-1].seq if records else 1, limit)
        matches: list[NumberedRecord] = []
        oldest_searched = end
        for first, last in _iter_ranges(end, TEXT_SEGMENT_RECORDS if text else SEGMENT_RECORDS):
            present_kinds = self._find_present_kinds(kinds, first, num_records)
            if present_kinds or not kinds:
                matches += self._search_range(present_kinds, text, first, last, limit - len(matches))
            if len(matches) >= limit:
                return _make_page(matches, matches[-1].seq, limit)
            oldest_searched = first
            if time.monotonic() >= deadline:
                break
        return SearchPage(matches, oldest_searched, oldest_searched <= 1)

    def index_next_segment(self) -> bool:
        """Looks at one more stretch that nobody asked for yet; returns whether there was one."""
        num_complete = self.queries.get_end() // SEGMENT_RECORDS
        missing = next((index for index in reversed(range(num_complete)) if index not in self._segments), None)
        if missing is None:
            return False
        self._load_segment(missing)
        return True

    def _search_range(
        self, kinds: Sequence[str], text: str, first: int, last: int, limit: int
    ) -> Sequence[NumberedRecord]:
        if text:
            return self.queries.search(text, last + 1, last + 1 - first, limit, kinds).records
        return self._search_kinds(kinds, first, last, limit)

    def _search_kinds(self, kinds: Sequence[str], first: int, last: int, limit: int) -> Sequence[NumberedRecord]:
        segment = self._segments.get((first - 1) // SEGMENT_RECORDS)
        if segment is None or any(kind not in segment.positions for kind in kinds):
            return self.queries.list_by_kind(kinds, first, last, limit)
        positions = sorted((seq for kind in kinds for seq in segment.positions[kind] if seq <= last), reverse=True)
        return list(reversed(self.queries.list_by_seq(positions[:limit])))

    def _find_present_kinds(self, kinds: Sequence[str], first: int, num_records: int) -> Sequence[str]:
        """Returns those of some kinds that there may be in the stretch of a record."""
        index = (first - 1) // SEGMENT_RECORDS
        if not kinds or (index + 1) * SEGMENT_RECORDS > num_records:
            return kinds  # it still grows
        counts = self._load_segment(index).counts
        return [kind for kind in kinds if kind in counts]

    def _load_segment(self, index: int) -> Segment:
        with self._lock:
            segment = self._segments.get(index)
        if segment is not None:
            return segment
        first, last = index * SEGMENT_RECORDS + 1, (index + 1) * SEGMENT_RECORDS
        counts = self.queries.count_by_kind(first, last)
        rare_kinds = [kind for kind, count in counts.items() if count <= MAX_INDEXED]
        new_segment = Segment(counts, self.queries.list_seqs_by_kind(rare_kinds, first, last) if rare_kinds else {})
        with self._lock:
            return self._segments.setdefault(index, new_segment)


class RecordSearchCache(response_cache.PerRunCache[RecordSearch]):
    """The finders of a store's runs, each made once."""

    def __init__(self, run_store: store.Store) -> None:
        super().__init__(run_store, RecordSearch)


def _make_page(records: Sequence[NumberedRecord], oldest_searched: int, limit: int) -> SearchPage:
    return SearchPage(records, oldest_searched, len(records) < limit or oldest_searched <= 1)


def _iter_ranges(end: int, size: int) -> Iterator[tuple[int, int]]:
    """Yields the first and last numbers of stretches below `end`, newest first, each within a multiple of `size`."""
    last = end - 1
    while last >= 1:
        first = (last - 1) // size * size + 1
        yield first, last
        last = first - 1
