"""A PostgreSQL database, and its notifications on one connection per process. Needs the extra `postgres`."""

import contextlib
import os
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from threading import Condition, Event, Lock, Thread
from typing import Any

import psycopg
import sqlalchemy
from sqlalchemy import Connection, exc, pool

from atoll import errors
from atoll.store.database import postgres_connection
from atoll.store.database.postgres_connection import SessionRunLock, find_lock_owner, make_lock_key

RETRY_SECONDS = 0.1  # between attempts to reconnect
CHANNEL = "atoll"
POLL_SECONDS = 0.25  # between checks for `close`
RECONNECT_SECONDS = 1.0

# The system identifier, or the address if reading the identifier is not permitted.
_SERVER_ID = """
CASE WHEN has_function_privilege('pg_control_system()', 'EXECUTE')
THEN (SELECT system_identifier::text FROM pg_control_system())
ELSE concat_ws(':', inet_server_addr(), inet_server_port()) END
"""

# A forked child shares the sockets; if it kept them open, a run lock would outlive its owner.
_open_connections: "weakref.WeakSet[psycopg.Connection[Any]]" = weakref.WeakSet()


class Listener:
    """Counts notifications by topic, in a thread, until it is closed.

    After a lost connection it reconnects and wakes all waiting threads, which query the tables; so nothing is missed.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        self._connect, self._counts, self._epoch = connect, Counter[str](), 0
        self._changed, self._closing = Condition(), Event()
        connection = self._start_listening()
        self._thread = Thread(target=self._run, args=(connection,), name="atoll-listener", daemon=True)
        self._thread.start()

    def get_state(self, topic: str) -> tuple[int, int]:
        """Returns a pair that changes with every notification and every reconnection."""
        with self._changed:
            return self._epoch, self._counts[topic]

    def wait(self, topic: str, last_state: tuple[int, int], seconds: float) -> tuple[int, int]:
        """Waits until the state differs from `last_state`, at most `seconds`; returns it."""
        with self._changed:
            self._changed.wait_for(lambda: (self._epoch, self._counts[topic]) != last_state, seconds)
            return self._epoch, self._counts[topic]

    def close(self) -> None:
        self._closing.set()
        with self._changed:
            self._epoch += 1
            self._changed.notify_all()
        self._thread.join()

    def _start_listening(self) -> psycopg.Connection[Any]:
        connection = self._connect()
        connection.execute(f"LISTEN {CHANNEL}")
        with self._changed:
            self._epoch += 1
            self._changed.notify_all()
        return connection

    def _run(self, connection: psycopg.Connection[Any]) -> None:
        while not self._closing.is_set():
            try:
                if connection.closed:
                    connection = self._start_listening()
                for notification in connection.notifies(timeout=POLL_SECONDS):
                    with self._changed:
                        self._counts[notification.payload] += 1
                        self._changed.notify_all()
            except psycopg.Error:
                connection.close()
                self._closing.wait(RECONNECT_SECONDS)
        connection.close()


class TopicSignal:
    """Signal for one topic."""

    def __init__(self, listener: Listener, topic: str) -> None:
        self._listener, self._topic = listener, topic
        self._last_state = listener.get_state(topic)

    def wait(self, seconds: float) -> None:
        self._last_state = self._listener.wait(self._topic, self._last_state, seconds)


class Postgres:
    """PostgreSQL database; see `Dialect`.

    Advisory locks that end with the transaction order the writers: one lock per run, one for all changes. So writers
    of different runs do not wait for each other. Each transaction knows its id, so that a writer that lost its
    connection during a commit can ask for the outcome.
    """

    is_shared = True
    snapshot_statement = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    is_local = False

    def __init__(self, url: str, busy_seconds: float) -> None:
        self._connection_info = postgres_connection.ConnectionInfo(url, busy_seconds)
        self.name, self._schema, self._wait_seconds = self._connection_info.name, "", busy_seconds
        self.engine = sqlalchemy.create_engine(
            "postgresql+psycopg://",
            creator=self._connect,
            isolation_level="AUTOCOMMIT",
            paramstyle="format",
            poolclass=pool.QueuePool,
            max_overflow=-1,
            pool_pre_ping=True,
            skip_autocommit_rollback=True,
            use_native_hstore=False,
        )
        self._run_locks: list[SessionRunLock] = []
        self._listener: Listener | None = None
        self._lock = Lock()

    def _connect(self) -> psycopg.Connection[Any]:
        connection = self._connection_info.connect()
        _open_connections.add(connection)
        return connection

    def initialize(self) -> None:
        """Does nothing."""

    def find_identity(self, connection: Connection) -> str:
        row = connection.exec_driver_sql("SELECT current_schema(), current_database(), " + _SERVER_ID).one()
        self._schema = str(row[0])
        return "/".join(map(str, reversed(row)))

    def check_identity(self) -> None:
        """Does nothing: queries of a dropped database fail."""

    def begin(self, driver: Any, locks: Sequence[str]) -> str:
        """Begins, takes the locks and returns the transaction id, in one round trip."""
        lock_statements = (
            f"SELECT pg_advisory_xact_lock({make_lock_key(self._schema, lock)}::bigint);" for lock in locks
        )
        cursor = driver.execute(f"BEGIN; {''.join(lock_statements)} SELECT pg_current_xact_id()::text")
        while cursor.nextset():
            pass
        transaction_id: str = cursor.fetchone()[0]
        return transaction_id

    def was_committed(self, driver: Any, transaction: str) -> bool:
        """Asks the server; a transaction in progress is terminated first."""
        status_query = "SELECT pg_xact_status(%s::xid8)"
        if driver.execute(status_query, (transaction,)).fetchone()[0] == "in progress":
            terminate_query = (
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE backend_xid::text = %s"
            )
            driver.execute(terminate_query, (str(int(transaction) % 2**32),))
        return bool(driver.execute(status_query, (transaction,)).fetchone()[0] == "committed")

    def cursor(self, connection: Connection) -> "ReconnectingCursor":
        return ReconnectingCursor(connection, self._wait_seconds)

    def batch(self, cursor: Any) -> contextlib.AbstractContextManager[object]:
        pipeline: contextlib.AbstractContextManager[object] = cursor.connection.pipeline()
        return pipeline

    def bulk_insert(self, cursor: Any, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        names = ", ".join(f'"{name}"' for name in columns)
        with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as stream:
            for row in rows:
                stream.write_row(row)

    def notify(self, cursor: Any, topic: str) -> None:
        cursor.execute("SELECT pg_notify(%s, %s)", (CHANNEL, topic))

    @contextlib.contextmanager
    def listen(self, topic: str) -> Iterator[TopicSignal]:
        with self._lock:
            if self._listener is None:
                self._listener = Listener(self._connect)
        yield TopicSignal(self._listener, topic)

    def lock_run(self, run_number: int, run_id: str) -> SessionRunLock:
        try:
            run_lock = SessionRunLock(self._connection_info, make_lock_key(self._schema, f"claim/{run_number}"), run_id)
        except psycopg.Error as error:
            raise self.explain(error, is_open=True) from error
        if run_lock.connection is not None:
            _open_connections.add(run_lock.connection)
        self._run_locks.append(run_lock)
        return run_lock

    def get_writer_pid(self, run_number: int) -> int | None:
        with self.engine.connect() as connection:
            driver = connection.connection.driver_connection
            owner = find_lock_owner(driver, make_lock_key(self._schema, f"claim/{run_number}"))
        return None if owner is None else owner[0]

    def is_connection_lost(self, error: BaseException) -> bool:
        return postgres_connection.is_connection_lost(getattr(error, "orig", None) or error)

    def restore_locks(self) -> None:
        for run_lock in self._run_locks:
            run_lock.restore()
            if run_lock.connection is not None:
                _open_connections.add(run_lock.connection)

    def explain(self, error: BaseException, *, is_open: bool) -> errors.AtollError:
        return postgres_connection.explain(error, self.name, is_open=is_open)

    def close(self) -> None:
        with self._lock:
            if self._listener is not None:
                self._listener.close()
                self._listener = None
        self.engine.dispose()


class ReconnectingCursor:
    """Read cursor that repeats a query on a new connection if its own was lost."""

    def __init__(self, connection: Connection, wait_seconds: float) -> None:
        self._connection, self._wait_seconds = connection, wait_seconds
        self._cursor: Any = connection.connection.cursor()

    def execute(self, statement: str, values: Any = ()) -> None:
        try:
            self._cursor.execute(statement, values)
        except psycopg.OperationalError as error:
            if not postgres_connection.is_connection_lost(error):
                raise
            self._connection.invalidate()
            self._cursor = self._reconnect().cursor()
            self._cursor.execute(statement, values)

    def _reconnect(self) -> Any:
        deadline = time.monotonic() + self._wait_seconds
        while True:
            try:
                return self._connection.connection
            except exc.OperationalError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(RETRY_SECONDS)

    def fetchone(self) -> Any:
        return self._cursor.fetchone()

    def fetchall(self) -> Any:
        return self._cursor.fetchall()

    def close(self) -> None:
        self._cursor.close()


def _close_inherited_sockets() -> None:
    """Closes inherited sockets in a forked child, without telling the server."""
    for inherited in list(_open_connections):
        if not inherited.closed:
            with contextlib.suppress(OSError):
                os.close(inherited.fileno())
    _open_connections.clear()


os.register_at_fork(after_in_child=_close_inherited_sockets)
