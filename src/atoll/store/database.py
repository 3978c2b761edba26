"""One database, its connections and its faults."""

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from types import TracebackType
from typing import Any

from sqlalchemy import Connection, Engine, exc, sql

from atoll import errors
from atoll.store import address, dialect, schema, sqlite

RETRY_SECONDS = 0.1  # between attempts to get back a connection that was lost
EVERYTHING = "everything"  # the lock of what others must not meet at all


class Prepared:
    """A statement compiled once and run by the driver: SQLAlchemy's own way takes longer than SQLite itself.

    `scripts/bench engine` prints commits per second beside bare sqlite3.
    """

    def __init__(self, engine: Engine, statement: sql.ClauseElement, names: Sequence[str]) -> None:
        compiled: Any = statement.compile(engine, column_keys=names)
        assert compiled.positiontup == list(names), f"give the values in the order {compiled.positiontup}"
        self._sql = str(compiled)

    def run(self, cursor: Any, rows: Sequence[Sequence[Any]]) -> None:
        if len(rows) == 1:
            cursor.execute(self._sql, rows[0])
        else:
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
        place: A text that is the same for the same database only.
        is_shared: Other processes may open it.
        found_version: The schema that it had before it was opened; 0: none.
    """

    def __init__(self, url: str, *, synchronous: sqlite.Synchronous, busy_seconds: float) -> None:
        self.dialect: dialect.Dialect = address.find(url, synchronous=synchronous, busy_seconds=busy_seconds)
        self.name, self.engine, self.is_shared = self.dialect.name, self.dialect.engine, self.dialect.is_shared
        self.patience = 0.0
        self.faults: Any = (exc.DBAPIError, self.engine.dialect.loaded_dbapi.Error)
        self._transaction, self._glance = Transaction(self), Glance(self)
        self._is_open = self._is_closed = False
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        self._is_open, self.patience = True, busy_seconds

    def _open(self) -> None:
        with self.reading() as connection:
            self.place = self.dialect.find_place(connection)
            found = self.found_version = schema.find_version(connection, self.name)
        schema.check(found, self.name)
        if found < schema.VERSION:
            with self._explained():
                self.dialect.settle()
            with self.writing(EVERYTHING) as connection:
                schema.prepare(connection, self.name)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Lends a connection for a moment; every query in it sees what is committed when it begins.

        Raises:
            StoreFailed: The database is out of order.
            SetupError: It is no database, or it is closed.
        """
        if not self.is_shared:
            with self.writing() as connection:
                yield connection
            return
        self.check_open()
        with self._explained(), self.connect() as connection:
            yield connection

    def rows(self, query: sql.Select[Any]) -> Sequence[Any]:
        """Returns all that a query finds; raises as `reading` does."""
        with self.reading() as connection:
            return connection.execute(query).all()

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Lends a connection to which the database stays as it is now, whoever writes; for a while, not for good.

        Raises:
            StoreFailed: The database is out of order.
            SetupError: It is closed.
        """
        with self.reading() as connection:
            if not self.is_shared:
                yield connection
                return
            driver: Any = connection.connection.driver_connection
            driver.execute(self.dialect.snapshot)
            try:
                yield connection
            finally:
                driver.rollback()

    def connect(self) -> Connection:
        """Returns a connection; while there is none to be had, waits for as long as the database has patience."""
        deadline = time.monotonic() + self.patience
        while True:
            try:
                return self.engine.connect()
            except self.faults as error:
                if not self.dialect.is_lost(error) or not self.patience:
                    raise
                if time.monotonic() > deadline:
                    raise errors.StoreFailed(
                        f"{self.name} was lost and did not come back within {self.patience:g} s: all that was "
                        "committed before is there, and runs go on with 'atoll resume'."
                    ) from error
            time.sleep(RETRY_SECONDS)

    def writing(self, *locks: str) -> AbstractContextManager[Connection]:
        """Lends the connection that writes, inside a transaction; commits at the end, or undoes all.

        Args:
            locks: What nobody else may write meanwhile: from the first look to the commit, the holders of one lock
                take turns. SQLite has one for all.

        Raises:
            StoreFailed: The database is full, read-only, locked for too long or damaged.
            Interrupted: Nothing was committed, but tried again it may be.
            SetupError: It is closed.
        """
        return self._transaction if not locks else Turn(self._transaction, locks)

    def glance(self) -> AbstractContextManager[Any]:
        """Lends a cursor that reads by the driver, to one thread at a time; for queries of microseconds.

        Raises:
            StoreFailed: The database is out of order.
            SetupError: It is closed.
        """
        return self._glance

    @contextmanager
    def signal(self, topic: str) -> Iterator[dialect.Signal]:
        """Lends what says when there may be something new about a topic.

        Raises:
            StoreFailed: The database is out of order.
            SetupError: It is closed.
        """
        self.check_open()
        with self._explained(), self.dialect.signal(topic) as made:
            yield made

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except self.faults as error:
            raise self.explain(error) from error

    def explain(self, error: BaseException) -> errors.AtollError:
        return self.dialect.explain(getattr(error, "orig", None) or error, is_open=self._is_open)

    def check_open(self) -> None:
        if self._is_closed:
            raise errors.SetupError(f"{self.name} is closed: open it again.")

    def check_place(self) -> None:
        """Looks whether what is written is still found by others.

        Raises:
            StoreFailed: A file was deleted, moved or replaced.
        """
        self.dialect.check_place()

    def close(self) -> None:
        self._is_closed = True
        self._glance.close()
        self._transaction.close()
        self.dialect.close()


class Transaction:
    """The one transaction that writes, entered by one thread at a time.

    Begins and commits through the driver: through SQLAlchemy that alone takes as long as SQLite's part. The engine is
    one of automatic commits, so that SQLAlchemy begins nothing by itself. A class and no generator: 5 us a commit.
    """

    def __init__(self, database: Database) -> None:
        self._database, self._lock = database, Lock()
        self._held: Connection | None = None
        self._driver: Any = None
        self._id = ""

    def __enter__(self) -> Connection:
        return self.begin(())

    def begin(self, locks: Sequence[str]) -> Connection:
        self._lock.acquire()
        try:
            self._database.check_open()
            held = self._held or self._connect()
            try:
                self._id = self._database.dialect.begin(self._driver, locks)
            except self._database.faults as error:
                if not self._database.dialect.is_lost(error):
                    raise
                held = self._connect()
                self._id = self._database.dialect.begin(self._driver, locks)
            return held
        except BaseException as error:
            self._end(error)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._end(error)
            return
        try:
            self._driver.commit()
        except BaseException as late:
            if not self._was_committed(late):
                self._end(late)
                raise
        self._leave()

    def _was_committed(self, error: BaseException) -> bool:
        """Asks, on another connection, how a commit ended whose answer was lost."""
        if not (isinstance(error, self._database.faults) and self._database.dialect.is_lost(error)):
            return False
        try:
            self._connect()
            return self._database.dialect.was_committed(self._driver, self._id)
        except BaseException as late:
            self._end(late)
            raise

    def _connect(self) -> Connection:
        """Gets a connection, in place of one that was lost, and with it what others must not have taken."""
        self._drop()
        self._held = made = self._database.connect()
        self._driver = made.connection.driver_connection
        self._database.dialect.restore()
        return made

    def _drop(self) -> None:
        if self._held is not None:
            self._held.invalidate()
            self._held.close()
            self._held = None

    def _leave(self) -> None:
        """Lets the next one in."""
        try:
            if self._held is not None and self._held.in_transaction():
                self._held.rollback()  # only SQLAlchemy's own idea of one
        finally:
            self._lock.release()

    def _end(self, error: BaseException | None) -> None:
        """Undoes what was not committed, lets the next one in and says in words what went wrong."""
        is_fault = isinstance(error, self._database.faults)
        try:
            if is_fault and error is not None and self._database.dialect.is_lost(error):
                self._drop()
            elif self._held is not None:
                self._driver.rollback()
        except self._database.faults:
            self._drop()  # it is gone, and all that was not committed with it
        finally:
            self._leave()
        if is_fault and error is not None:
            raise self._database.explain(error) from error

    def close(self) -> None:
        with self._lock:
            if self._held is not None:
                self._held.close()
                self._held = None


class Turn:
    """One use of the transaction, under locks."""

    def __init__(self, transaction: Transaction, locks: Sequence[str]) -> None:
        self._transaction, self._locks = transaction, locks

    def __enter__(self) -> Connection:
        return self._transaction.begin(self._locks)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transaction.__exit__(kind, error, trace)


class Glance:
    """A connection that is held to read with: to borrow one takes four times as long as a query by its key.

    No statement in it outlives its block, so it is in the way of no checkpoint. In memory it is the writer's.
    """

    def __init__(self, database: Database) -> None:
        self._database, self._lock = database, Lock()
        self._held: Connection | None = None
        self._cursor: Any = None

    def __enter__(self) -> Any:
        if not self._database.is_shared:
            return self._database.writing().__enter__().connection.cursor()
        self._lock.acquire()
        try:
            self._database.check_open()
            if self._held is None:
                self._held = self._database.connect()
                self._cursor = self._database.dialect.cursor(self._held)
            return self._cursor
        except BaseException as error:
            self._lock.release()
            if isinstance(error, self._database.faults):
                raise self._database.explain(error) from error
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._database.is_shared:
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
