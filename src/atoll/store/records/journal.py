"""The journal of one run in the database."""

import sys
import time
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, func, insert, select

from atoll import control, errors, journal
from atoll.candidate import JSON
from atoll.store.candidates import row_writer
from atoll.store.database import schema
from atoll.store.database.database import Database, PreparedStatement, retry_transaction
from atoll.store.records.blobs import Blobs, insert_blobs
from atoll.store.records.json_codec import Blob, PackedJSON, pack, unpack

ALL_ISLANDS = -1  # the island of a record that concerns all of them
CHUNK = 256  # records read at a time
NOTIFY_SECONDS = 0.1  # between two words to those who follow: a server that is told of each commit makes them queue

_records = schema.records.c


class StoredJournal:
    """Writes the records of a run and, in the same transaction, the rows about its candidates.

    Args:
        is_shared: Several write this journal at once, and see to it themselves that their records can be told apart.
    """

    def __init__(self, database: Database, run_number: int, *, is_shared: bool = False) -> None:
        self._database, self._run_number, self._blobs, self._is_shared = (
            database,
            run_number,
            Blobs(database),
            is_shared,
        )
        engine = database.engine
        self._insert = PreparedStatement(engine, insert(schema.records), [column.name for column in schema.records.c])
        last_query = select(func.max(_records.seq)).where(_records.run == bindparam("run"))
        self._last_seq_query = PreparedStatement(engine, last_query, ["run"])
        self._candidate_writer = row_writer.CandidateRowWriter(engine)
        self._write_lock = Lock()  # from the look at the end to the note of the new one: threads write in turns
        self._topic, self._notified_at = get_run_topic(run_number), 0.0
        self._last_seq: int | None = None  # where the journal ended when this object last saw it

    def write(self, *records: journal.Record) -> None:
        """Commits all records in one transaction or raises. Called from any thread.

        Raises:
            ValueError: A number in a record is not finite.
            TypeError: A record holds what is no plain data.
            StoreFailed: The database is full, read-only, locked for too long or damaged.
            Conflict: Somebody else wrote this run since this journal was first read or last written.
        """
        if not records:
            return
        packed = [_pack_record(record) for record in records]
        blobs = [blob for item in packed for blob in item.blobs]
        with self._write_lock:
            retry_transaction(lambda: self._write(records, packed, blobs))

    def _write(self, records: Sequence[journal.Record], packed: Sequence[PackedJSON], blobs: Sequence[Blob]) -> None:
        with self._database.begin_write(self._topic) as connection:
            self._check_ownership(connection, records)
            cursor = connection.connection.cursor()
            end = self._find_end(cursor)
            with self._database.dialect.batch(cursor):
                self._insert_records(cursor, end + 1, records, packed)
            if blobs:
                insert_blobs(connection, blobs)
            if (now := time.monotonic()) - self._notified_at > NOTIFY_SECONDS:
                self._notified_at = now
                self._database.dialect.notify(cursor, self._topic)
        self._last_seq = end + len(records)

    def _insert_records(
        self, cursor: Any, first: int, records: Sequence[journal.Record], packed: Sequence[PackedJSON]
    ) -> None:
        candidate_rows, rows = row_writer.CandidateRows(self._run_number), []
        for seq, (record, (text, links, _)) in enumerate(zip(records, packed, strict=True), first):
            rows.append((self._run_number, seq, record.kind, record.step, record.island, text, links))
            candidate_rows.add(seq, record)
        self._insert.execute(cursor, rows)
        self._candidate_writer.write(cursor, candidate_rows)

    def _check_ownership(self, connection: Connection, records: Sequence[journal.Record]) -> None:
        """Refuses records that are not this writer's to write; inside the transaction that writes them."""

    def _find_end(self, cursor: Any) -> int:
        """Refuses to write behind somebody else's records: two runs in one journal could never be told apart.

        Who is far away from the database need not ask: the place behind the last record that it knows is then taken.
        """
        if self._last_seq is not None and not (self._is_shared or self._database.dialect.is_local):
            return self._last_seq
        end: int = self._last_seq_query.fetch_value(cursor, self._run_number) or 0
        if self._last_seq not in (None, end) and not self._is_shared:
            raise errors.Conflict("Somebody else writes this run: claim it, and let only one go on.")
        return end

    def read(self, island: int | None = None) -> Iterator[journal.Record]:
        """Yields the records that stand at this moment, in the order in which they were written.

        Those of one island include those that concern all islands. Reads in small portions: memory stays bounded,
        and a slow reader is in nobody's way.
        """
        with self._database.begin_read() as connection:
            last_seq = (
                connection.execute(select(func.max(_records.seq)).where(_records.run == self._run_number)).scalar() or 0
            )
        if self._last_seq is None:
            self._last_seq = last_seq
        return self._iterate(last_seq, () if island is None else (_records.island.in_((island, ALL_ISLANDS)),))

    def read_kinds(self, *kinds: str) -> Iterator[journal.Record]:
        """Yields the records of some kinds that stand at this moment, in their order; for those who only look."""
        with self._database.begin_read() as connection:
            last_seq = (
                connection.execute(select(func.max(_records.seq)).where(_records.run == self._run_number)).scalar() or 0
            )
        return self._iterate(last_seq, (_records.kind.in_(kinds),))

    def read_step(self, step: int, *kinds: str) -> Iterator[journal.Record]:
        """Yields the records of some kinds about one step, in their order; for those who only look."""
        return self._iterate(sys.maxsize, (_records.step == step, _records.kind.in_(kinds)))

    def read_last(self) -> journal.Record | None:
        """Returns the record that was written last, or None."""
        newest = select(func.max(_records.seq)).where(_records.run == self._run_number).scalar_subquery()
        return next(self._iterate(sys.maxsize, (_records.seq == newest,)), None)

    def _iterate(self, last_seq: int, conditions: Sequence[ColumnElement[bool]]) -> Iterator[journal.Record]:
        after = 0
        while rows := retry_transaction(lambda: self._fetch_chunk(after, last_seq, conditions)):  # noqa: B023 - called at once
            after = rows[-1].seq
            for _, kind, step, island, text, links in rows:
                yield journal.Record(kind, step, island, unpack(text, links, self._blobs.get))

    def _fetch_chunk(self, after: int, last_seq: int, conditions: Sequence[ColumnElement[bool]]) -> Sequence[Any]:
        columns = (_records.seq, _records.kind, _records.step, _records.island, _records.data, _records.links)
        query = select(*columns).where(
            _records.run == self._run_number, _records.seq > after, _records.seq <= last_seq, *conditions
        )
        with self._database.begin_read() as connection:
            return connection.execute(query.order_by(_records.seq).limit(CHUNK)).all()


def get_run_topic(run_number: int) -> str:
    """Returns what those listen for who follow a run, and what its writers lock."""
    return f"run/{run_number}"


def _pack_record(record: journal.Record) -> PackedJSON:
    try:
        return pack(record.data)
    except (TypeError, ValueError) as error:
        error_type = TypeError if isinstance(error, TypeError) else ValueError
        raise error_type(f"The {record.kind} record of step {record.step} was not written: {error}.") from error


_commands = schema.commands.c


class StoredInbox:
    """Keeps the commands to one run, numbered from 1; also while the run is not alive."""

    def __init__(self, database: Database, run_number: int) -> None:
        self._database, self._run_number, self._blobs = database, run_number, Blobs(database)

    def post(self, kind: control.CommandKind, /, **data: JSON) -> int:
        """Leaves a command and returns its number."""
        packed = pack(data)
        return retry_transaction(lambda: self._post(kind, packed))

    def _post(self, kind: str, packed: PackedJSON) -> int:
        with self._database.begin_write(f"inbox/{self._run_number}") as connection:
            insert_blobs(connection, packed.blobs)
            last_number = connection.execute(
                select(func.max(_commands.number)).where(_commands.run == self._run_number)
            ).scalar()
            command_number = 1 + (last_number or 0)
            row = {
                "run": self._run_number,
                "number": command_number,
                "kind": kind,
                "data": packed.text,
                "links": packed.links,
            }
            connection.execute(insert(schema.commands), row)
        return command_number

    def read(self, after: int) -> Sequence[control.Command]:
        query = select(_commands.number, _commands.kind, _commands.data, _commands.links)
        query = query.where(_commands.run == self._run_number, _commands.number > after)
        rows = retry_transaction(lambda: self._database.fetch_rows(query.order_by(_commands.number)))
        return [
            control.Command(command_number, kind, unpack(text, links, self._blobs.get))
            for command_number, kind, text, links in rows
        ]
