"""One database, its connections and its faults."""

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from types import TracebackType
from typing import Any

import sqlalchemy
from sqlalchemy import Connection, Engine, exc, sql

from atoll import errors
from atoll.store import schema, sqlite


class Prepared:
    """A statement compiled once and run by the driver: SQLAlchemy's own way takes longer than SQLite itself.

    `scripts/bench engine` prints commits per second beside bare sqlite3.
    """

    def __init__(self, engine: Engine, statement: sql.ClauseElement, names: Sequence[str]) -> None:
        compiled: Any = statement.compile(engine, column_keys=names)
        assert compiled.positiontup == list(names), f"give the values in the order {compiled.positiontup}"
        self._sql = str(compiled)

    def run(self, cursor: Any, rows: Sequence[Sequence[Any]]) -> None:
        cursor.executemany(self._sql, rows)

    def value(self, cursor: Any, *values: Any) -> Any:
        """Returns the first column of the first row."""
        cursor.execute(self._sql, values)
        return cursor.fetchone()[0]

    def rows(self, cursor: Any, *values: Any) -> Sequence[Any]:
        """Returns all rows: a statement that is not read to its end would keep its moment of the file open."""
        cursor.execute(self._sql, values)
        found: Sequence[Any] = cursor.fetchall()
        return found


class Database:
    """Lends connections: many to read with, one held to write with.

    Nobody keeps a connection while foreign code runs, so that no reader holds up a checkpoint and no writer waits.

    Attributes:
        name: What messages call it.
        place: Its real path; in memory, a text that no other store has.
    """

    def __init__(self, url: str, *, synchronous: sqlite.Synchronous, busy_seconds: float) -> None:
        parsed = _parse(url)
        self.name = str(parsed.database) if sqlite.is_file(parsed) else ":memory:"
        self.engine = sqlite.make_engine(parsed, synchronous, busy_seconds)
        self.is_file = sqlite.is_file(parsed)
        self.faults: Any = (exc.DBAPIError, self.engine.dialect.loaded_dbapi.Error)
        self._transaction, self._glance = Transaction(self), Glance(self)
        self._is_closed = False
        try:
            self._open(busy_seconds)
        except BaseException:
            self.close()
            raise

    def _open(self, busy_seconds: float) -> None:
        with self.reading() as connection:
            self.place = sqlite.file_of(connection) or f":memory:{uuid.uuid4()}"
            found = schema.find_version(connection, self.name)
        schema.check(found, self.name)
        if found < schema.VERSION:
            with self._explained():
                sqlite.settle(self.engine, busy_seconds)
            with self.writing() as connection:
                schema.prepare(connection, self.name)
        self._identity = _identity(self.place) if self.is_file else None

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Lends a connection for a moment; every query in it sees what is committed when it begins.

        Raises:
            StoreFailed: The database is out of order.
            SetupError: It is no database, or it is closed.
        """
        if not self.is_file:
            with self.writing() as connection:
                yield connection
            return
        self.check_open()
        with self._explained(), self.engine.connect() as connection:
            yield connection

    def writing(self) -> AbstractContextManager[Connection]:
        """Lends the connection that writes, inside a transaction; commits at the end, or undoes all.

        Raises:
            StoreFailed: The database is full, read-only, locked for too long or damaged.
            SetupError: It is closed.
        """
        return self._transaction

    def glance(self) -> AbstractContextManager[Any]:
        """Lends a cursor that reads by the driver, to one thread at a time; for queries of microseconds.

        Raises:
            StoreFailed: The database is out of order.
            SetupError: It is closed.
        """
        return self._glance

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except self.faults as error:
            raise self.explain(error) from error

    def explain(self, error: BaseException) -> errors.AtollError:
        cause = getattr(error, "orig", None) or error
        kind = errors.SetupError if sqlite.is_foreign(cause) else errors.StoreFailed
        return kind(sqlite.explain(cause, self.name))

    def check_open(self) -> None:
        if self._is_closed:
            raise errors.SetupError(f"{self.name} is closed: open it again.")

    def check_place(self) -> None:
        """Looks whether the file is still the one that was opened: what is written after a `rm` goes nowhere.

        Raises:
            StoreFailed: It was deleted, moved or replaced.
        """
        if self.is_file and (not os.path.exists(self.place) or _identity(self.place) != self._identity):
            raise errors.StoreFailed(
                f"{self.name} was deleted, moved or replaced while it was open: its runs are lost."
            )

    def close(self) -> None:
        self._is_closed = True
        self._glance.close()
        self._transaction.close()
        self.engine.dispose()


class Transaction:
    """The one transaction that writes, entered by one thread at a time.

    Begins and commits through the driver: through SQLAlchemy that alone takes as long as SQLite's part. The engine is
    one of automatic commits, so that SQLAlchemy begins nothing by itself. A class and no generator: 5 us a commit.
    """

    def __init__(self, database: Database) -> None:
        self._database, self._lock = database, Lock()
        self._held: Connection | None = None
        self._driver: Any = None

    def __enter__(self) -> Connection:
        self._lock.acquire()
        try:
            self._database.check_open()
            if self._held is None:
                self._held = self._database.engine.connect()
                self._driver = self._held.connection.driver_connection
            self._driver.execute(sqlite.BEGIN)
            return self._held
        except BaseException as error:
            self._end(error)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            try:
                self._driver.commit()
            except BaseException as late:
                self._end(late)
                raise
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        """Undoes what was not committed, lets the next one in and says in words what went wrong."""
        try:
            if self._held is not None:
                self._driver.rollback()
                if self._held.in_transaction():
                    self._held.rollback()
        finally:
            self._lock.release()
        if isinstance(error, self._database.faults):
            raise self._database.explain(error) from error

    def close(self) -> None:
        with self._lock:
            if self._held is not None:
                self._held.close()
                self._held = None


class Glance:
    """A connection that is held to read with: to borrow one takes four times as long as a query by its key.

    No statement in it outlives its block, so it is in the way of no checkpoint. In memory it is the writer's.
    """

    def __init__(self, database: Database) -> None:
        self._database, self._lock = database, Lock()
        self._held: Connection | None = None
        self._cursor: Any = None

    def __enter__(self) -> Any:
        if not self._database.is_file:
            return self._database.writing().__enter__().connection.cursor()
        self._lock.acquire()
        try:
            self._database.check_open()
            if self._held is None:
                self._held = self._database.engine.connect()
                self._cursor = self._held.connection.cursor()
            return self._cursor
        except BaseException as error:
            self._lock.release()
            if isinstance(error, self._database.faults):
                raise self._database.explain(error) from error
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._database.is_file:
            self._database.writing().__exit__(kind, error, trace)
            return
        self._lock.release()
        if isinstance(error, self._database.faults):
            raise self._database.explain(error) from error

    def close(self) -> None:
        with self._lock:
            if self._held is not None:
                self._cursor.close()
                self._held.close()
                self._held = None


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _parse(url: str) -> sqlalchemy.URL:
    if not url.strip():
        raise errors.SetupError("The store has no name: give a path, or sqlite:// for one in memory.")
    if "://" not in url:
        return sqlalchemy.URL.create("sqlite", database=url)
    try:
        parsed = sqlalchemy.make_url(url)
    except exc.ArgumentError as error:
        raise errors.SetupError(
            f"{url.partition('://')[0]}://... is no address of a store: give a path or sqlite:///PATH."
        ) from error
    if parsed.get_backend_name() != "sqlite":
        raise errors.SetupError(
            f"Atoll keeps its store in SQLite so far, not {parsed.get_backend_name()}: give a path."
        )
    return parsed
