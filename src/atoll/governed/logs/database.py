"""Logged decisions in the store's database, found by time and by entity."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from atoll import store
from atoll.governed.logs import moments
from atoll.governed.logs.entry import LogEntry, decode, encode, to_utc
from atoll.governed.logs.files import now
from atoll.governed.logs.source import LogPosition, ReadIssue
from atoll.store import timeline

STREAM = "decisions"


class SQLLog:
    """A log in a store: `StoredLog(store.open("atoll.db"))`. Entries come in the order of their times.

    Args:
        stream: Several logs may share a store under different names.
        clock: Stamps entries that come without a time.
    """

    def __init__(self, run_store: store.Store, *, stream: str = STREAM, clock: Callable[[], datetime] = now) -> None:
        self._stream, self._clock = timeline.EventStream(run_store.database, stream), clock

    def append(self, *entries: LogEntry) -> None:
        """Writes entries in one commit.

        Raises:
            SetupError: One of them holds what is no plain data.
            StoreFailed: They could not be written.
        """
        self._stream.append([self._make_row(entry) for entry in entries])

    def _make_row(self, entry: LogEntry) -> timeline.StreamEvent:
        timestamp = to_utc(self._clock() if entry.timestamp.year == 1 else entry.timestamp)
        line = encode(msgspec.structs.replace(entry, timestamp=timestamp)).decode().rstrip("\n")
        return timeline.StreamEvent(moments.to_micros(timestamp), entry.entity, entry.decision_id, line)

    def read(self, since: datetime, until: datetime) -> Iterator[LogEntry]:
        """Yields the entries from `since` to `until`, both included, in the order of their times."""
        return iter(self.open_reader(since, until))

    def open_reader(self, since: datetime, until: datetime, *, after: LogPosition = None) -> "SQLLogReader":
        span = moments.to_micros(since), moments.to_micros(until)
        return SQLLogReader(self._stream.iter_between(*span, after=tuple(after) if after else None), after)

    def query_entity(self, entity: str, since: datetime) -> Iterable[LogEntry]:
        """Returns the entries of one entity from a moment on, by an index."""
        return [decode(row.data.encode()) for row in self._stream.list_by_entity(entity, moments.to_micros(since))]


class SQLLogReader:
    """A reading of rows under way; a database has no broken lines."""

    issues: Sequence[ReadIssue] = ()
    num_issues = 0
    num_in_progress = 0

    def __init__(self, rows: Iterator[timeline.StreamRow], after: LogPosition) -> None:
        self._rows, self.position = rows, after

    def __iter__(self) -> Iterator[LogEntry]:
        for row in self._rows:
            self.position = [row.timestamp, row.number]
            yield decode(row.data.encode())
