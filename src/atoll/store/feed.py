"""The records of a run as they come, for programs of one's own; the dashboard looks for new ones itself."""

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import func, select

from atoll import journal
from atoll.store import schema
from atoll.store.blobs import Blobs
from atoll.store.database import Database
from atoll.store.journal import CHUNK, topic_of
from atoll.store.packing import unpack
from atoll.store.perseverance import persistently

BUFFER = 1000  # records that may wait for a slow follower
LOOK_SECONDS = 0.5  # between looks without a sign: writers on a server announce themselves ten times a second at most

_records = schema.records.c


class News(NamedTuple):
    """A record and its number in its run; `follow(after=seq)` goes on behind it."""

    seq: int
    record: journal.Record


class Gap(NamedTuple):
    """Records that a slow follower missed, from `first` to `last`; `between` reads them."""

    first: int
    last: int


class Feed:
    """Follows one run, in whatever process it is written. Threads may share it.

    SQLite is asked for its version a hundred times a second, PostgreSQL says by itself when there is something new.
    """

    def __init__(self, database: Database, run: int) -> None:
        self._database, self._run, self._blobs = database, run, Blobs(database)

    def end(self) -> int:
        """Returns the number of the record that was written last, 0 before the first."""
        return persistently(self._end)

    def _end(self) -> int:
        with self._database.reading() as connection:
            found = connection.execute(select(func.max(_records.seq)).where(_records.run == self._run)).scalar()
        return found or 0

    def follow(
        self, after: int | None = None, *, timeout: float | None = None, buffer: int | None = BUFFER
    ) -> Iterator[News | Gap]:
        """Yields records as they are committed, in their order; none is left out without a word.

        Args:
            after: The last one that was seen: 0 yields all there ever was. None: those from the call on.
            timeout: Ends when so many seconds bring nothing new; None: never.
            buffer: How many records may wait while the follower is busy. Where there are more, the newest are yielded
                behind a `Gap` that names the others. What was there when it began is no gap; None: there are none.
        """
        began = self.end()
        return self._follow(began if after is None else after, began, timeout, buffer)

    def _follow(self, after: int, began: int, timeout: float | None, buffer: int | None) -> Iterator[News | Gap]:
        while (end := self._wait(after, timeout)) > after:
            if buffer is not None and end - max(after, began) > buffer:
                yield from self.between(after, began)
                first, after = max(after, began) + 1, end - buffer
                yield Gap(first, after)
            yield from self.between(after, end)
            after = end

    def between(self, after: int, upto: int) -> Iterator[News]:
        """Yields the records behind one number up to another, read in small portions."""
        while after < upto and (rows := persistently(lambda: self._portion(after, upto))):  # noqa: B023 - called at once
            for seq, kind, step, island, text, links in rows:
                yield News(seq, journal.Record(kind, step, island, unpack(text, links, self._blobs.get)))
            after = rows[-1].seq

    def _portion(self, after: int, upto: int) -> Sequence[Any]:
        columns = (_records.seq, _records.kind, _records.step, _records.island, _records.data, _records.links)
        query = select(*columns).where(_records.run == self._run, _records.seq > after, _records.seq <= upto)
        with self._database.reading() as connection:
            return connection.execute(query.order_by(_records.seq).limit(CHUNK)).all()

    def _wait(self, after: int, timeout: float | None) -> int:
        """Waits for a record behind `after`; returns the end of the journal."""
        if (end := self.end()) > after:
            return end
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._database.signal(topic_of(self._run)) as signal:
            while (end := self.end()) <= after:
                left = LOOK_SECONDS if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    return end
                signal.wait(min(left, LOOK_SECONDS))
                self._database.check_open()
        return end
