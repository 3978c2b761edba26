"""The journal of one run in the database."""

import sys
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any

from sqlalchemy import ColumnElement, bindparam, func, insert, select

from atoll import errors, journal
from atoll.store import projection, schema
from atoll.store.blobs import Blobs, keep
from atoll.store.database import Database, Prepared
from atoll.store.packing import Packed, pack, unpack

ALL = -1  # the island of a record that concerns all of them
CHUNK = 256  # records read at a time

_records = schema.records.c


class StoredJournal:
    """Writes the records of a run and, in the same transaction, the rows about its candidates."""

    def __init__(self, database: Database, run: int) -> None:
        self._database, self._run, self._blobs = database, run, Blobs(database)
        engine = database.engine
        self._insert = Prepared(engine, insert(schema.records), [column.name for column in schema.records.c])
        last = select(func.max(_records.seq)).where(_records.run == bindparam("run"))
        self._last = Prepared(engine, last, ["run"])
        self._candidates = projection.Writer(engine)
        self._turn = Lock()  # from the look at the end to the note of the new one: threads write in turns
        self._end: int | None = None  # where the journal ended when this object last saw it

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
        packed = [_pack(record) for record in records]
        bodies = [body for each in packed for body in each.bodies]
        with self._turn:
            with self._database.writing() as connection:
                cursor = connection.connection.cursor()
                end = self._check_alone(self._last.value(cursor, self._run) or 0)
                self._put(cursor, end + 1, records, packed)
                if bodies:
                    keep(connection, bodies)
            self._end = end + len(records)

    def _put(self, cursor: Any, first: int, records: Sequence[journal.Record], packed: Sequence[Packed]) -> None:
        about, rows = projection.Projection(self._run), []
        for seq, (record, (text, links, _)) in enumerate(zip(records, packed, strict=True), first):
            rows.append((self._run, seq, record.kind, record.step, record.island, text, links))
            about.take(seq, record)
        self._insert.run(cursor, rows)
        self._candidates.write(cursor, about)

    def _check_alone(self, end: int) -> int:
        """Refuses to write behind somebody else's records: two runs in one journal could never be told apart."""
        if self._end not in (None, end):
            raise errors.Conflict("Somebody else writes this run: claim it, and let only one go on.")
        return end

    def read(self, island: int | None = None) -> Iterator[journal.Record]:
        """Yields the records that stand at this moment, in the order in which they were written.

        Those of one island include those that concern all islands. Reads in small portions: memory stays bounded,
        and a slow reader is in nobody's way.
        """
        with self._database.reading() as connection:
            last = connection.execute(select(func.max(_records.seq)).where(_records.run == self._run)).scalar() or 0
        if self._end is None:
            self._end = last
        return self._read(last, () if island is None else (_records.island.in_((island, ALL)),))

    def of_kind(self, *kinds: str) -> Iterator[journal.Record]:
        """Yields the records of some kinds that stand at this moment, in their order; for those who only look."""
        with self._database.reading() as connection:
            last = connection.execute(select(func.max(_records.seq)).where(_records.run == self._run)).scalar() or 0
        return self._read(last, (_records.kind.in_(kinds),))

    def of_step(self, step: int, *kinds: str) -> Iterator[journal.Record]:
        """Yields the records of some kinds about one step, in their order; for those who only look."""
        return self._read(sys.maxsize, (_records.step == step, _records.kind.in_(kinds)))

    def last(self) -> journal.Record | None:
        """Returns the record that was written last, or None."""
        newest = select(func.max(_records.seq)).where(_records.run == self._run).scalar_subquery()
        return next(self._read(sys.maxsize, (_records.seq == newest,)), None)

    def _read(self, last: int, where: Sequence[ColumnElement[bool]]) -> Iterator[journal.Record]:
        after = 0
        while rows := self._portion(after, last, where):
            after = rows[-1].seq
            for _, kind, step, index, text, links in rows:
                yield journal.Record(kind, step, index, unpack(text, links, self._blobs.get))

    def _portion(self, after: int, last: int, where: Sequence[ColumnElement[bool]]) -> Sequence[Any]:
        columns = (_records.seq, _records.kind, _records.step, _records.island, _records.data, _records.links)
        query = select(*columns).where(_records.run == self._run, _records.seq > after, _records.seq <= last, *where)
        with self._database.reading() as connection:
            return connection.execute(query.order_by(_records.seq).limit(CHUNK)).all()


def _pack(record: journal.Record) -> Packed:
    try:
        return pack(record.data)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"The {record.kind} record of step {record.step} was not written: {error}.") from error
