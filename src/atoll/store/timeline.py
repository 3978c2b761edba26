"""Things that happened, by time and by whom they concern: streams of rows in the store's database.

A table of its own beside those of `schema`, made when the first stream is opened: a store without streams has none.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Column, Index, MetaData, Table, Text, delete, insert, inspect, select, tuple_

from atoll.store.database import EVERYTHING, Database, Prepared
from atoll.store.perseverance import persistently
from atoll.store.schema import WHOLE, WORD

CHUNK = 1000  # rows read at a time

metadata = MetaData()
moments = Table(
    "moments",
    metadata,
    Column("number", WHOLE, primary_key=True),
    Column("stream", WORD, nullable=False),
    Column("at", WHOLE, nullable=False),
    Column("entity", WORD, nullable=False),
    Column("name", WORD, nullable=False),
    Column("data", Text, nullable=False),
)
Index("moments_by_time", moments.c.stream, moments.c.at, moments.c.number)
Index("moments_by_entity", moments.c.stream, moments.c.entity, moments.c.at, moments.c.number)

_rows = moments.c
_columns = (_rows.at, _rows.number, _rows.data)


class Moment(NamedTuple):
    """One row to be written; `at` counts microseconds since 1970."""

    at: int
    entity: str
    name: str
    data: str


class Found(NamedTuple):
    """One row as it was read; `(at, number)` is its place in the order of its stream."""

    at: int
    number: int
    data: str


def is_there(database: Database) -> bool:
    """Says whether a database has streams at all."""
    with database.reading() as connection:
        return inspect(connection).has_table(moments.name)


class Timeline:
    """One stream. Threads may share it; other processes open the same file."""

    def __init__(self, database: Database, stream: str) -> None:
        self._database, self._stream = database, stream
        prepare(database)
        self._insert = Prepared(database.engine, insert(moments), ["stream", "at", "entity", "name", "data"])

    def append(self, rows: Sequence[Moment]) -> None:
        """Writes rows in one commit.

        Raises:
            StoreFailed: The database is full, read-only, locked for too long or damaged.
        """
        persistently(lambda: self._append(rows))

    def _append(self, rows: Sequence[Moment]) -> None:
        with self._database.writing(f"stream/{self._stream}") as connection:
            cursor = connection.connection.cursor()
            self._insert.run(cursor, [(self._stream, *row) for row in rows])

    def between(self, since: int, until: int, after: tuple[int, int] | None = None) -> Iterator[Found]:
        """Yields the rows of a time in its order, those of one moment as they were written; memory stays bounded."""
        query = select(*_columns).where(_rows.stream == self._stream, _rows.at >= since, _rows.at <= until)
        place = after or (since, 0)
        while rows := self._fetch(query.where(tuple_(_rows.at, _rows.number) > tuple_(*place)).limit(CHUNK)):
            yield from rows
            place = rows[-1][:2]

    def of(self, entity: str, since: int, name: str = "") -> Sequence[Found]:
        """Returns the rows of one entity from a moment on, of one name or of all."""
        query = select(*_columns).where(_rows.stream == self._stream, _rows.entity == entity, _rows.at >= since)
        return self._fetch(query.where(_rows.name == name) if name else query)

    def remove(self, entity: str, before: int | None = None) -> None:
        """Removes the rows of one entity, or those of it before a moment; for streams that tell of the present."""
        query = delete(moments).where(_rows.stream == self._stream, _rows.entity == entity)
        with self._database.writing() as connection:
            connection.execute(query if before is None else query.where(_rows.at < before))

    def entities(self) -> Sequence[str]:
        """Returns all entities, sorted."""
        query = select(_rows.entity).where(_rows.stream == self._stream).distinct().order_by(_rows.entity)
        with self._database.reading() as connection:
            return list(connection.execute(query).scalars())

    def _fetch(self, query: Any) -> Sequence[Found]:
        return [Found(*each) for each in self._database.rows(query.order_by(_rows.at, _rows.number))]


def prepare(database: Database) -> None:
    """Makes the table where there is none."""
    if not is_there(database):
        with database.writing(EVERYTHING) as connection:
            metadata.create_all(connection)
