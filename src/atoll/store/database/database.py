"""A database: connections, transactions, retries and errors."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from types import TracebackType
from typing import Any

from sqlalchemy import Connection, Engine, exc, sql

from atoll import errors
from atoll.store.database import dialect, schema, sqlite
from atoll.store.versions.errors import Interrupted

RETRY_SECONDS = 0.1  # between attempts to reconnect
GLOBAL_LOCK = "everything"  # held while tables are created


class PreparedStatement:
    """Statement that is compiled once and run by the driver; SQLAlchemy itself takes longer than SQLite.

    `scripts/bench engine` compares commits per second with bare sqlite3.
    """

    def __init__(self, engine: Engine, statement: sql.ClauseElement, names: Sequence[str]) -> None:
        compiled: Any = statement.compile(engine, column_keys=names)
        assert compiled.positiontup == list(names), f"pass the values in the order {compiled.positiontup}"
        self._sql = str(compiled)

    def execute(self, cursor: Any, rows: Sequence[Sequence[Any]]) -> None:
        if len(rows) == 1:
            cursor.execute(self._sql, rows[0])
        else:
            cursor.executemany(self._sql, rows)

    def fetch_value(self, cursor: Any, *values: Any) -> Any:
        """Returns the first column of the first row."""
        cursor.execute(self._sql, values)
        return cursor.fetchone()[0]

    def fetch_rows(self, cursor: Any, *values: Any) -> Sequence[Any]:
        """Returns all rows; an unfinished statement would keep its snapshot open."""
        cursor.execute(self._sql, values)
        rows: Sequence[Any] = cursor.fetchall()
        return rows


class Database:
    """Provides many connections for reading and one for writing.

    No connection stays open while a caller's code runs, so readers do not delay checkpoints and writers do not wait.

    Attributes:
        name: URL for messages.
        identity: Text that identifies the database.
        is_shared: Whether other processes can open it.
        original_version: Schema version before it was opened; 0: none.
    """

    def __init__(self, url: str, *, synchronous: sqlite.Synchronous, busy_seconds: float) -> None:
        self.dialect: dialect.Dialect = dialect.open_database(url, synchronous=synchronous, busy_seconds=busy_seconds)
        self.name, self.engine, self.is_shared = self.dialect.name, self.dialect.engine, self.dialect.is_shared
        self.wait_seconds = 0.0
        self.driver_errors: Any = (exc.DBAPIError, self.engine.dialect.loaded_dbapi.Error)
        self._transaction, self._read_connection = Transaction(self), ReadConnection(self)
        self._is_open = self._is_closed = False
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        self._is_open, self.wait_seconds = True, busy_seconds

    def _open(self) -> None:
        with self.begin_read() as connection:
            self.identity = self.dialect.find_identity(connection)
            version = self.original_version = schema.find_version(connection, self.name)
        schema.check_version(version, self.name)
        if version < schema.VERSION:
            with self._explain_errors():
                self.dialect.initialize()
            with self.begin_write(GLOBAL_LOCK) as connection:
                schema.create_or_upgrade(connection, self.name)

    @contextmanager
    def begin_read(self) -> Iterator[Connection]:
        """Yields a connection for reading; each query sees the commits before its start.

        Raises:
            StoreFailed: The database failed.
            SetupError: It is not a database, or it is closed.
        """
        if not self.is_shared:
            with self.begin_write() as connection:
                yield connection
            return
        self.check_open()
        with self._explain_errors(), self.connect() as connection:
            yield connection

    def fetch_rows(self, query: sql.Select[Any]) -> Sequence[Any]:
        """Returns all rows of a query; raises like `begin_read`."""
        with self.begin_read() as connection:
            return connection.execute(query).all()

    @contextmanager
    def begin_snapshot(self) -> Iterator[Connection]:
        """Yields a connection that sees a snapshot of the database; for a short time.

        Raises:
            StoreFailed: The database failed.
            SetupError: It is closed.
        """
        with self.begin_read() as connection:
            if not self.is_shared:
                yield connection
                return
            driver: Any = connection.connection.driver_connection
            driver.execute(self.dialect.snapshot_statement)
            try:
                yield connection
            finally:
                driver.rollback()

    def connect(self) -> Connection:
        """Returns a connection; waits up to `wait_seconds` while the server is unreachable."""
        deadline = time.monotonic() + self.wait_seconds
        while True:
            try:
                return self.engine.connect()
            except self.driver_errors as error:
                if not self.dialect.is_connection_lost(error) or not self.wait_seconds:
                    raise
                if time.monotonic() > deadline:
                    raise errors.StoreFailed(
                        f"Lost the connection to {self.name} for {self.wait_seconds:g} s. All commits are kept. "
                        "Continue runs with 'atoll resume'."
                    ) from error
            time.sleep(RETRY_SECONDS)

    def begin_write(self, *locks: str) -> AbstractContextManager[Connection]:
        """Begins a transaction with the write connection; commits at the end, or rolls back after an exception.

        Args:
            locks: Names of locks; transactions with the same lock run one after the other. SQLite has one lock for
                all.

        Raises:
            StoreFailed: The database is full, read-only, locked for too long or damaged.
            Interrupted: Nothing was committed; a retry may succeed.
            SetupError: The database is closed.
        """
        return self._transaction if not locks else WriteTransaction(self._transaction, locks)

    def open_cursor(self) -> AbstractContextManager[Any]:
        """Yields a driver cursor for fast queries, to one thread at a time.

        Raises:
            StoreFailed: The database failed.
            SetupError: It is closed.
        """
        return self._read_connection

    @contextmanager
    def listen(self, topic: str) -> Iterator[dialect.ChangeSignal]:
        """Yields a signal for changes of a topic.

        Raises:
            StoreFailed: The database failed.
            SetupError: It is closed.
        """
        self.check_open()
        with self._explain_errors(), self.dialect.listen(topic) as signal:
            yield signal

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except self.driver_errors as error:
            raise self.explain(error) from error

    def explain(self, error: BaseException) -> errors.AtollError:
        return self.dialect.explain(getattr(error, "orig", None) or error, is_open=self._is_open)

    def check_open(self) -> None:
        if self._is_closed:
            raise errors.SetupError(f"{self.name} is closed. Open it again.")

    def check_identity(self) -> None:
        """Checks that the open file is still the one at its path.

        Raises:
            StoreFailed: The file was deleted, moved or replaced.
        """
        self.dialect.check_identity()

    def close(self) -> None:
        self._is_closed = True
        self._read_connection.close()
        self._transaction.close()
        self.dialect.close()


class Transaction:
    """The write transaction of a database, used by one thread at a time.

    It begins and commits through the driver, because SQLAlchemy would take as long as SQLite itself. The engine uses
    autocommit, so that SQLAlchemy begins no transaction. A class instead of a generator saves 5 us per commit.
    """

    def __init__(self, database: Database) -> None:
        self._database, self._lock = database, Lock()
        self._connection: Connection | None = None
        self._driver: Any = None
        self._id = ""

    def __enter__(self) -> Connection:
        return self.begin(())

    def begin(self, locks: Sequence[str]) -> Connection:
        self._lock.acquire()
        try:
            self._database.check_open()
            connection = self._connection or self._connect()
            try:
                self._id = self._database.dialect.begin(self._driver, locks)
            except self._database.driver_errors as error:
                if not self._database.dialect.is_connection_lost(error):
                    raise
                connection = self._connect()
                self._id = self._database.dialect.begin(self._driver, locks)
            return connection
        except BaseException as error:
            self._abort(error)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._abort(error)
            return
        try:
            self._driver.commit()
        except BaseException as commit_error:
            if not self._was_committed(commit_error):
                self._abort(commit_error)
                raise
        self._release_lock()

    def _was_committed(self, error: BaseException) -> bool:
        """Returns whether a commit succeeded whose connection was lost; asks on a new connection."""
        if not (isinstance(error, self._database.driver_errors) and self._database.dialect.is_connection_lost(error)):
            return False
        try:
            self._connect()
            return self._database.dialect.was_committed(self._driver, self._id)
        except BaseException as new_error:
            self._abort(new_error)
            raise

    def _connect(self) -> Connection:
        """Opens a new connection and restores the run locks."""
        self._drop_connection()
        self._connection = connection = self._database.connect()
        self._driver = connection.connection.driver_connection
        self._database.dialect.restore_locks()
        return connection

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None

    def _release_lock(self) -> None:
        try:
            if self._connection is not None and self._connection.in_transaction():
                self._connection.rollback()  # resets only SQLAlchemy's state
        finally:
            self._lock.release()

    def _abort(self, error: BaseException | None) -> None:
        """Rolls back, releases the lock, and raises an explained error for a driver error."""
        is_driver_error = isinstance(error, self._database.driver_errors)
        try:
            if is_driver_error and error is not None and self._database.dialect.is_connection_lost(error):
                self._drop_connection()
            elif self._connection is not None:
                self._driver.rollback()
        except self._database.driver_errors:
            self._drop_connection()  # the server rolls back
        finally:
            self._release_lock()
        if is_driver_error and error is not None:
            raise self._database.explain(error) from error

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


class WriteTransaction:
    """One use of the transaction, with locks."""

    def __init__(self, transaction: Transaction, locks: Sequence[str]) -> None:
        self._transaction, self._locks = transaction, locks

    def __enter__(self) -> Connection:
        return self._transaction.begin(self._locks)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transaction.__exit__(kind, error, trace)


class ReadConnection:
    """Connection that stays open for reading; opening one takes four times as long as a query by key.

    Every statement ends in its block, so it does not delay checkpoints. A database in memory uses the write connection.
    """

    def __init__(self, database: Database) -> None:
        self._database, self._lock = database, Lock()
        self._connection: Connection | None = None
        self._cursor: Any = None

    def __enter__(self) -> Any:
        if not self._database.is_shared:
            return self._database.begin_write().__enter__().connection.cursor()
        self._lock.acquire()
        try:
            self._database.check_open()
            if self._connection is None:
                self._connection = self._database.connect()
                self._cursor = self._database.dialect.cursor(self._connection)
            return self._cursor
        except BaseException as error:
            self._lock.release()
            if isinstance(error, self._database.driver_errors):
                raise self._database.explain(error) from error
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._database.is_shared:
            self._database.begin_write().__exit__(kind, error, trace)
            return
        self._lock.release()
        if isinstance(error, self._database.driver_errors):
            raise self._database.explain(error) from error

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._cursor.close()
                self._connection.close()
                self._connection = None


MAX_ATTEMPTS = 8


def retry_transaction[T](transaction: Callable[[], T]) -> T:
    """Runs a function that is one transaction; repeats it after `Interrupted`.

    Raises:
        Interrupted: All attempts were interrupted.
    """
    for _ in range(MAX_ATTEMPTS - 1):
        try:
            return transaction()
        except Interrupted:
            continue
    return transaction()
