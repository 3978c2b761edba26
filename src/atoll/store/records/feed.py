"""Feed of the new records of a run."""

import time
from collections.abc import Iterator
from typing import NamedTuple

from atoll import journal
from atoll.store.database.database import Database, retry_transaction
from atoll.store.records.journal import fetch_last_seq, get_run_topic, iter_records

BUFFER = 1000  # maximum of records that wait for a slow follower
POLL_SECONDS = 0.5  # between checks without a notification; writers do not notify of every commit


class FeedItem(NamedTuple):
    """A record and its sequence number; `follow(after=seq)` continues after it."""

    seq: int
    record: journal.Record


class Gap(NamedTuple):
    """Records that a slow follower missed; `iter_range(first - 1, last)` reads them."""

    first: int
    last: int


class RecordFeed:
    """Follows one run that any process writes; thread-safe.

    SQLite is polled a hundred times a second for its data version; PostgreSQL sends notifications.
    """

    def __init__(self, database: Database, run_number: int) -> None:
        self._database, self._run_number = database, run_number

    def get_end(self) -> int:
        """Returns the sequence number of the newest record; 0: none."""
        return retry_transaction(lambda: fetch_last_seq(self._database, self._run_number))

    def follow(
        self, after: int | None = None, *, timeout: float | None = None, buffer: int | None = BUFFER
    ) -> Iterator[FeedItem | Gap]:
        """Yields records in order as they are committed.

        Args:
            after: Last known sequence number; 0 yields all records. None: only records after this call.
            timeout: Ends after this many seconds without a new record; None: never.
            buffer: Maximum of new records that wait while the follower is busy. If there are more, a `Gap` replaces
                the older ones. Records from before the call are never skipped. None: no maximum.
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
        """Yields the records after one sequence number up to another, read in chunks."""
        if after < end:
            for seq, record in iter_records(self._database, self._run_number, after, end):
                yield FeedItem(seq, record)

    def _wait(self, after: int, timeout: float | None) -> int:
        """Waits for a record after `after`; returns the end of the journal."""
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
