"""Journal and inbox of a run in the database, and the feed of its new records."""

import sys
import time
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, bindparam, func, insert, select

from atoll import control, errors, journal
from atoll.candidate import JSON
from atoll.store import candidates
from atoll.store.database import schema
from atoll.store.database.database import Database, PreparedStatement, retry_transaction
from atoll.store.records import seals
from atoll.store.records.blobs import Blobs, insert_blobs
from atoll.store.records.json_codec import Blob, PackedJSON, pack, unpack

ALL_ISLANDS = -1  # island of records about all islands
CHUNK = 256  # records read at a time
NOTIFY_SECONDS = 0.1  # minimum between notifications: PostgreSQL serializes commits that notify

_records = schema.records.c


class StoredJournal:
    """Writes the records of a run and, in the same transaction, the rows of its candidates.

    Args:
        is_shared: Whether several processes write this journal; they must keep their records apart themselves.
    """

    def __init__(self, database: Database, run_number: int, *, is_shared: bool = False) -> None:
        self._database, self._run_number, self._is_shared = database, run_number, is_shared
        self._blobs, engine = Blobs(database), database.engine
        self._insert = PreparedStatement(engine, insert(schema.records), [column.name for column in schema.records.c])
        last_query = select(func.max(_records.seq)).where(_records.run == bindparam("run"))
        self._last_seq_query = PreparedStatement(engine, last_query, ["run"])
        self._candidate_writer = candidates.CandidateRowWriter(engine)
        self._write_lock = Lock()  # held from reading to updating `_last_seq`
        self._topic, self._notified_at = get_run_topic(run_number), 0.0
        self._last_seq: int | None = None  # last known end of the journal
        self._insert_seal = PreparedStatement(engine, insert(seals.seals), [column.name for column in seals.seals.c])
        self._has_seals = False
        self._last_hash: str | None = None  # of the seal at `_last_seq`

    def write(self, *records: journal.Record) -> None:
        """Commits all records in one transaction or raises. Thread-safe.

        Raises:
            ValueError: A number in a record is not finite.
            TypeError: A record contains something other than plain data.
            StoreFailed: The database is full, read-only, locked for too long or damaged.
            Conflict: Another process wrote this run since this journal was first read or last written.
        """
        if not records:
            return
        packed = [_pack_record(record) for record in records]
        blobs = [blob for item in packed for blob in item.blobs]
        with self._write_lock:
            if not self._has_seals:
                seals.create_table(self._database)
                self._has_seals = True
            retry_transaction(lambda: self._write(records, packed, blobs))

    def _write(self, records: Sequence[journal.Record], packed: Sequence[PackedJSON], blobs: Sequence[Blob]) -> None:
        with self._database.begin_write(self._topic) as connection:
            self._check_ownership(connection, records)
            cursor = connection.connection.cursor()
            end = self._find_end(cursor)
            if self._last_hash is None or end != self._last_seq:
                previous_hash = seals.find_last_hash(connection, self._run_number, seals.RECORDS)
            else:
                previous_hash = self._last_hash
            with self._database.dialect.batch(cursor):
                last_hash = self._insert_records(cursor, end + 1, records, packed, previous_hash)
            if blobs:
                insert_blobs(connection, blobs)
            if (now := time.monotonic()) - self._notified_at > NOTIFY_SECONDS:
                self._notified_at = now
                self._database.dialect.notify(cursor, self._topic)
        self._last_seq, self._last_hash = end + len(records), last_hash

    def _insert_records(
        self, cursor: Any, first: int, records: Sequence[journal.Record], packed: Sequence[PackedJSON], seal: str
    ) -> str:
        """Inserts the records and the rows of their candidates, and seals the records; returns the new hash."""
        candidate_rows, rows, written_at = candidates.CandidateRows(self._run_number), [], time.time()
        for seq, (record, (text, links, _)) in enumerate(zip(records, packed, strict=True), first):
            rows.append((self._run_number, seq, str(record.kind), record.step, record.island, text, links, written_at))
            candidate_rows.add(seq, record)
        self._insert.execute(cursor, rows)
        new_hash = seals.compute_hash(seal, [seals.order_record(row[1:]) for row in rows])
        last = first + len(rows) - 1
        self._insert_seal.execute(cursor, [(self._run_number, seals.RECORDS, last, first, new_hash)])
        self._candidate_writer.write(cursor, candidate_rows)
        return new_hash

    def _check_ownership(self, connection: Connection, records: Sequence[journal.Record]) -> None:
        """Raises for records of islands that this writer does not own; called inside the transaction."""

    def _find_end(self, cursor: Any) -> int:
        """Returns the last sequence number; raises if another process wrote records.

        With a remote database, the query is skipped: the primary key rejects a number that is taken.
        """
        if self._last_seq is not None and not (self._is_shared or self._database.dialect.is_local):
            return self._last_seq
        end: int = self._last_seq_query.fetch_value(cursor, self._run_number) or 0
        if self._last_seq not in (None, end) and not self._is_shared:
            raise errors.Conflict("Another process writes this run. End it, then resume the run.")
        return end

    def read(self, island: int | None = None) -> Iterator[journal.Record]:
        """Yields the current records in order; those of one island include those about all islands.

        Reads in chunks: memory is bounded, and a slow reader does not block writers.
        """
        last_seq = fetch_last_seq(self._database, self._run_number)
        if self._last_seq is None:
            self._last_seq = last_seq
        return self._iterate(last_seq, () if island is None else (_records.island.in_((island, ALL_ISLANDS)),))

    def read_kinds(self, *kinds: str) -> Iterator[journal.Record]:
        """Yields the current records of some kinds in order, without preparing to write."""
        return self._iterate(fetch_last_seq(self._database, self._run_number), (_records.kind.in_(kinds),))

    def read_step(self, step: int, *kinds: str) -> Iterator[journal.Record]:
        """Yields the records of some kinds of one iteration in order, without preparing to write."""
        return self._iterate(sys.maxsize, (_records.step == step, _records.kind.in_(kinds)))

    def read_last(self) -> journal.Record | None:
        """Returns the newest record, or None."""
        newest = select(func.max(_records.seq)).where(_records.run == self._run_number).scalar_subquery()
        return next(self._iterate(sys.maxsize, (_records.seq == newest,)), None)

    def _iterate(self, last_seq: int, conditions: Sequence[ColumnElement[bool]]) -> Iterator[journal.Record]:
        for _, record in iter_records(self._database, self._run_number, 0, last_seq, *conditions):
            yield record


def get_run_topic(run_number: int) -> str:
    """Returns the topic of notifications about a run, which is also the lock of its writers."""
    return f"run/{run_number}"


def fetch_last_seq(database: Database, run_number: int) -> int:
    """Returns the sequence number of the newest record; 0: none."""
    with database.begin_read() as connection:
        query = select(func.max(_records.seq)).where(_records.run == run_number)
        return connection.execute(query).scalar() or 0


def iter_records(
    database: Database, run_number: int, after: int, last_seq: int, *conditions: ColumnElement[bool]
) -> Iterator[tuple[int, journal.Record]]:
    """Yields records and their sequence numbers, read in chunks."""
    blobs = Blobs(database)
    columns = (_records.seq, _records.kind, _records.step, _records.island, _records.data, _records.links)
    query = select(*columns).where(_records.run == run_number, _records.seq <= last_seq, *conditions)
    query = query.order_by(_records.seq).limit(CHUNK)
    while rows := retry_transaction(lambda: database.fetch_rows(query.where(_records.seq > after))):  # noqa: B023 - called at once
        for seq, kind, step, island, text, links in rows:
            yield seq, journal.Record(kind, step, island, unpack(text, links, blobs.get))
        after = rows[-1].seq


def _pack_record(record: journal.Record) -> PackedJSON:
    try:
        return pack(record.data)
    except (TypeError, ValueError) as error:
        error_type = TypeError if isinstance(error, TypeError) else ValueError
        raise error_type(f"The {record.kind} record of iteration {record.step} was not written: {error}.") from error


_commands = schema.commands.c


class StoredInbox:
    """Commands to one run, numbered from 1; also while the run is not running."""

    def __init__(self, database: Database, run_number: int) -> None:
        self._database, self._run_number, self._blobs = database, run_number, Blobs(database)

    def post(self, kind: control.CommandKind, /, **data: JSON) -> int:
        """Adds a command and returns its number."""
        packed = pack(data)
        seals.create_table(self._database)
        return retry_transaction(lambda: self._post(kind, packed))

    def _post(self, kind: str, packed: PackedJSON) -> int:
        with self._database.begin_write(f"inbox/{self._run_number}") as connection:
            insert_blobs(connection, packed.blobs)
            last_query = select(func.max(_commands.number)).where(_commands.run == self._run_number)
            command_number = 1 + (connection.execute(last_query).scalar() or 0)
            row = {"run": self._run_number, "number": command_number, "kind": kind}
            connection.execute(insert(schema.commands), {**row, "data": packed.text, "links": packed.links})
            sealed_row = (command_number, str(kind), packed.text, packed.links)
            seals.add_seal(connection, self._run_number, seals.COMMANDS, [sealed_row])
        return command_number

    def read(self, after: int) -> Sequence[control.Command]:
        query = select(_commands.number, _commands.kind, _commands.data, _commands.links)
        query = query.where(_commands.run == self._run_number, _commands.number > after)
        rows = retry_transaction(lambda: self._database.fetch_rows(query.order_by(_commands.number)))
        return [
            control.Command(command_number, kind, unpack(text, links, self._blobs.get))
            for command_number, kind, text, links in rows
        ]


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
