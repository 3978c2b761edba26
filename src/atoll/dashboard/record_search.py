"""Search for records by kind or text, newest first, within a time limit.

The store has no index for this, since it would slow down every write. Instead the search remembers, for each segment
of the journal, the number of records of each kind and the positions of rare kinds. Complete segments never change.
A search that reaches its time limit reports how far it came.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import NamedTuple

from atoll import store
from atoll.dashboard import response_cache
from atoll.store.records.queries import NumberedRecord, RecordQueries

SEGMENT_RECORDS = 32_768  # size of a segment
MAX_INDEXED = 256  # kinds with at most this many records in a segment are indexed
TEXT_SEGMENT_RECORDS = 16_384  # records per text search


class Segment(NamedTuple):
    """Index of `SEGMENT_RECORDS` records.

    Attributes:
        counts: Number of records, by kind.
        positions: Sequence numbers of the records of rare kinds, by kind.
    """

    counts: Mapping[str, int]
    positions: Mapping[str, Sequence[int]]


class SearchPage(NamedTuple):
    """Result of a search.

    Attributes:
        events: Matching records, newest first.
        oldest_searched: Sequence number of the oldest record that was searched.
        is_done: No older records are left to search.
    """

    events: Sequence[NumberedRecord]
    oldest_searched: int
    is_done: bool


class RecordSearch:
    """Searches the journal of one run."""

    def __init__(self, run_store: store.Store, run: str) -> None:
        self.queries = RecordQueries(run_store, run)
        self._segments: dict[int, Segment] = {}
        self._lock = Lock()

    def search(self, kinds: Sequence[str], text: str, before: int, limit: int, seconds: float) -> SearchPage:
        """Returns records older than `before`; stops after `seconds`.

        Args:
            kinds: Kinds to return; empty: all.
            text: Text that the records contain; empty: any.
            before: Sequence number above all results.
            limit: Maximum number of results.
            seconds: Time limit.
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
        """Indexes the newest segment that is not indexed; returns False if none is left."""
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
        """Returns the kinds that may occur in the segment that starts at `first`."""
        index = (first - 1) // SEGMENT_RECORDS
        if not kinds or (index + 1) * SEGMENT_RECORDS > num_records:
            return kinds  # the segment still grows
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
    """Searches of all runs of a store."""

    def __init__(self, run_store: store.Store) -> None:
        super().__init__(run_store, RecordSearch)


def _make_page(records: Sequence[NumberedRecord], oldest_searched: int, limit: int) -> SearchPage:
    return SearchPage(records, oldest_searched, len(records) < limit or oldest_searched <= 1)


def _iter_ranges(end: int, size: int) -> Iterator[tuple[int, int]]:
    """Yields first and last sequence numbers of ranges below `end`, newest first, aligned to `size`."""
    last = end - 1
    while last >= 1:
        first = (last - 1) // size * size + 1
        yield first, last
        last = first - 1
