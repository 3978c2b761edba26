"""Logged decisions in the store's database, found by time and by entity."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from atoll import store
from atoll.governed.logs import moments
from atoll.governed.logs.entry import LogEntry, decode, encode, in_utc
from atoll.governed.logs.files import now
from atoll.governed.logs.source import Place, ReadIssue
from atoll.store import timeline

STREAM = "decisions"


class StoredLog:
    """A log in a store: `StoredLog(store.open("atoll.db"))`. Entries come in the order of their times.

    Args:
        stream: Several logs may share a store under different names.
        clock: Stamps entries that come without a time.
    """

    def __init__(self, kept: store.Store, *, stream: str = STREAM, clock: Callable[[], datetime] = now) -> None:
        self._timeline, self._clock = timeline.Timeline(kept.database, stream), clock

    def append(self, *entries: LogEntry) -> None:
        """Writes entries in one commit.

        Raises:
            SetupError: One of them holds what is no plain data.
            StoreFailed: They could not be written.
        """
        self._timeline.append([self._row(entry) for entry in entries])

    def _row(self, entry: LogEntry) -> timeline.Moment:
        moment = in_utc(self._clock() if entry.timestamp.year == 1 else entry.timestamp)
        line = encode(msgspec.structs.replace(entry, timestamp=moment)).decode().rstrip("\n")
        return timeline.Moment(moments.to_micros(moment), entry.entity, entry.decision_id, line)

    def read(self, since: datetime, until: datetime) -> Iterator[LogEntry]:
        """Yields the entries from `since` to `until`, both included, in the order of their times."""
        return iter(self.begin(since, until))

    def begin(self, since: datetime, until: datetime, *, after: Place = None) -> "StoredReading":
        span = moments.to_micros(since), moments.to_micros(until)
        return StoredReading(self._timeline.between(*span, after=tuple(after) if after else None), after)

    def of(self, entity: str, since: datetime) -> Iterable[LogEntry]:
        """Returns the entries of one entity from a moment on, by an index."""
        return [decode(row.data.encode()) for row in self._timeline.of(entity, moments.to_micros(since))]


class StoredReading:
    """A reading of rows under way; a database has no broken lines."""

    issues: Sequence[ReadIssue] = ()
    num_issues = 0
    num_in_progress = 0

    def __init__(self, rows: Iterator[timeline.Found], after: Place) -> None:
        self._rows, self.place = rows, after

    def __iter__(self) -> Iterator[LogEntry]:
        for row in self._rows:
            self.place = [row.at, row.number]
            yield decode(row.data.encode())
