"""The records of a run as they come, for programs of one's own; the dashboard looks for new ones itself."""

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import func, select

from atoll import journal
from atoll.store.database import schema
from atoll.store.database.database import Database, retry_transaction
from atoll.store.records.blobs import Blobs
from atoll.store.records.journal import CHUNK, get_run_topic
from atoll.store.records.json_codec import unpack

BUFFER = 1000  # records that may wait for a slow follower
POLL_SECONDS = 0.5  # between looks without a sign: writers on a server announce themselves ten times a second at most

_records = schema.records.c


class FeedItem(NamedTuple):
    """A record and its number in its run; `follow(after=seq)` goes on behind it."""

    seq: int
    record: journal.Record


class Gap(NamedTuple):
    """Records that a slow follower missed, from `first` to `last`; `between` reads them."""

    first: int
    last: int


class RecordFeed:
    """Follows one run, in whatever process it is written. Threads may share it.

    SQLite is asked for its version a hundred times a second, PostgreSQL says by itself when there is something new.
    """

    def __init__(self, database: Database, run_number: int) -> None:
        self._database, self._run_number, self._blobs = database, run_number, Blobs(database)

    def get_end(self) -> int:
        """Returns the number of the record that was written last, 0 before the first."""
        return retry_transaction(self._fetch_end)

    def _fetch_end(self) -> int:
        with self._database.begin_read() as connection:
            last_seq = connection.execute(
                select(func.max(_records.seq)).where(_records.run == self._run_number)
            ).scalar()
        return last_seq or 0

    def follow(
        self, after: int | None = None, *, timeout: float | None = None, buffer: int | None = BUFFER
    ) -> Iterator[FeedItem | Gap]:
        """Yields records as they are committed, in their order; none is left out without a word.

        Args:
            after: The last one that was seen: 0 yields all there ever was. None: those from the call on.
            timeout: Ends when so many seconds bring nothing new; None: never.
            buffer: How many records may wait while the follower is busy. Where there are more, the newest are yielded
                behind a `Gap` that names the others. What was there when it began is no gap; None: there are none.
        """
        start = self.get_end()
        return self._follow(start if after is None else after, start, timeout, buffer)

    def _follow(self, after: int, start: int, timeout: float | None, buffer: int | None) -> Iterator[FeedItem | Gap]:
        while (end := self._wait(after, timeout)) > after:
            if buffer is not None and end - max(after, start) > buffer:
                yield from self.iter_range(after, start)
                first, after = max(after, start) + 1, end - buffer
                yield Gap(first, after)
            yield from self.iter_range(after, end)
            after = end

    def iter_range(self, after: int, end: int) -> Iterator[FeedItem]:
        """Yields the records behind one number up to another, read in small portions."""
        while after < end and (rows := retry_transaction(lambda: self._fetch_chunk(after, end))):  # noqa: B023 - called at once
            for seq, kind, step, island, text, links in rows:
                yield FeedItem(seq, journal.Record(kind, step, island, unpack(text, links, self._blobs.get)))
            after = rows[-1].seq

    def _fetch_chunk(self, after: int, end: int) -> Sequence[Any]:
        columns = (_records.seq, _records.kind, _records.step, _records.island, _records.data, _records.links)
        query = select(*columns).where(_records.run == self._run_number, _records.seq > after, _records.seq <= end)
        with self._database.begin_read() as connection:
            return connection.execute(query.order_by(_records.seq).limit(CHUNK)).all()

    def _wait(self, after: int, timeout: float | None) -> int:
        """Waits for a record behind `after`; returns the end of the journal."""
        if (end := self.get_end()) > after:
            return end
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._database.listen(get_run_topic(self._run_number)) as signal:
            while (end := self.get_end()) <= after:
                remaining = POLL_SECONDS if deadline is None else deadline - time.monotonic()
                if remaining <= 0:
                    return end
                signal.wait(min(remaining, POLL_SECONDS))
                self._database.check_open()
        return end
