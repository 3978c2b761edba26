"""Event streams: events by time and entity, in the store's database.

The table is created with the first stream; it is not part of `schema`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Column, Index, MetaData, Table, Text, delete, insert, inspect, select, tuple_

from atoll.store.database.database import GLOBAL_LOCK, Database, PreparedStatement, retry_transaction
from atoll.store.database.schema import INTEGER, STRING

CHUNK = 1000  # rows read at a time

metadata = MetaData()
moments = Table(
    "moments",
    metadata,
    Column("number", INTEGER, primary_key=True),
    Column("stream", STRING, nullable=False),
    Column("at", INTEGER, nullable=False),
    Column("entity", STRING, nullable=False),
    Column("name", STRING, nullable=False),
    Column("data", Text, nullable=False),
)
Index("moments_by_time", moments.c.stream, moments.c.at, moments.c.number)
Index("moments_by_entity", moments.c.stream, moments.c.entity, moments.c.at, moments.c.number)

_moments = moments.c
_columns = (_moments.at, _moments.number, _moments.data)


class StreamEvent(NamedTuple):
    """Event to write; `timestamp` is in microseconds since 1970."""

    timestamp: int
    entity: str
    name: str
    data: str


class StreamRow(NamedTuple):
    """Event as read; a stream is ordered by `(timestamp, number)`."""

    timestamp: int
    number: int
    data: str


def has_streams(database: Database) -> bool:
    with database.begin_read() as connection:
        return inspect(connection).has_table(moments.name)


class EventStream:
    """One stream; thread-safe, and shared by processes through the database."""

    def __init__(self, database: Database, stream: str) -> None:
        self._database, self._stream = database, stream
        create_table(database)
        self._insert = PreparedStatement(database.engine, insert(moments), ["stream", "at", "entity", "name", "data"])

    def append(self, rows: Sequence[StreamEvent]) -> None:
        """Writes events in one transaction.

        Raises:
            StoreFailed: The database is full, read-only, locked for too long or damaged.
        """
        retry_transaction(lambda: self._append(rows))

    def _append(self, rows: Sequence[StreamEvent]) -> None:
        with self._database.begin_write(f"stream/{self._stream}") as connection:
            cursor = connection.connection.cursor()
            self._insert.execute(cursor, [(self._stream, *row) for row in rows])

    def iter_between(self, since: int, until: int, after: tuple[int, int] | None = None) -> Iterator[StreamRow]:
        """Yields the events of a time interval in order, with bounded memory."""
        query = select(*_columns).where(_moments.stream == self._stream, _moments.at >= since, _moments.at <= until)
        position = after or (since, 0)
        while rows := self._fetch(query.where(tuple_(_moments.at, _moments.number) > tuple_(*position)).limit(CHUNK)):
            yield from rows
            position = rows[-1][:2]

    def list_by_entity(self, entity: str, since: int, name: str = "") -> Sequence[StreamRow]:
        """Returns the events of an entity since a time, of one name or all."""
        query = select(*_columns).where(
            _moments.stream == self._stream, _moments.entity == entity, _moments.at >= since
        )
        return self._fetch(query.where(_moments.name == name) if name else query)

    def remove(self, entity: str, before: int | None = None) -> None:
        """Removes the events of an entity, all or those before a time."""
        query = delete(moments).where(_moments.stream == self._stream, _moments.entity == entity)
        with self._database.begin_write() as connection:
            connection.execute(query if before is None else query.where(_moments.at < before))

    def list_entities(self) -> Sequence[str]:
        query = select(_moments.entity).where(_moments.stream == self._stream).distinct().order_by(_moments.entity)
        with self._database.begin_read() as connection:
            return list(connection.execute(query).scalars())

    def _fetch(self, query: Any) -> Sequence[StreamRow]:
        return [StreamRow(*row) for row in self._database.fetch_rows(query.order_by(_moments.at, _moments.number))]


def create_table(database: Database) -> None:
    if not has_streams(database):
        with database.begin_write(GLOBAL_LOCK) as connection:
            metadata.create_all(connection)
