"""One database on a server."""

import contextlib
import os
import time
import weakref
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any

import psycopg
import sqlalchemy
from sqlalchemy import Connection, exc, pool

from atoll import errors
from atoll.store.postgres import conninfo, faults
from atoll.store.postgres.listener import CHANNEL, Heard, Listener
from atoll.store.postgres.locks import SessionClaim, find_holder, key_of

AGAIN_SECONDS = 0.1  # between attempts to get back a connection that was lost

# Servers have a number; where it is not shown to everybody, their address has to do.
_SERVER = """
CASE WHEN has_function_privilege('pg_control_system()', 'EXECUTE')
THEN (SELECT system_identifier::text FROM pg_control_system())
ELSE concat_ws(':', inet_server_addr(), inet_server_port()) END
"""

# A child that is forked shares the sockets: what it keeps open would keep a claim alive after its holder died.
_open: "weakref.WeakSet[psycopg.Connection[Any]]" = weakref.WeakSet()


class Postgres:
    """A database of a PostgreSQL server; see `Dialect`.

    Writers take turns by advisory locks that end with their transaction, one for each run, one for all changes: those
    of different runs are not in each other's way. Each transaction knows its id, so that a writer that lost the
    connection while it committed can ask how that ended.
    """

    is_shared = True
    snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    is_near = False

    def __init__(self, url: str, busy_seconds: float) -> None:
        self._address = conninfo.Conninfo(url, busy_seconds)
        self.name, self._schema, self._patience = self._address.name, "", busy_seconds
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
        self._claims: list[SessionClaim] = []
        self._listener: Listener | None = None
        self._lock = Lock()

    def _connect(self) -> psycopg.Connection[Any]:
        made = self._address.connect()
        _open.add(made)
        return made

    def settle(self) -> None:
        """A server needs nothing."""

    def find_place(self, connection: Connection) -> str:
        found = connection.exec_driver_sql("SELECT current_schema(), current_database(), " + _SERVER).one()
        self._schema = str(found[0])
        return "/".join(map(str, reversed(found)))

    def check_place(self) -> None:
        """A database that was dropped says so itself."""

    def begin(self, driver: Any, locks: Sequence[str]) -> str:
        """Begins, waits for the locks and learns the transaction's id, all in one trip to the server."""
        turns = (f"SELECT pg_advisory_xact_lock({key_of(self._schema, lock)}::bigint);" for lock in locks)
        cursor = driver.execute(f"BEGIN; {''.join(turns)} SELECT pg_current_xact_id()::text")
        while cursor.nextset():
            pass
        found: str = cursor.fetchone()[0]
        return found

    def was_committed(self, driver: Any, transaction: str) -> bool:
        """Asks; one that is still under way on the server is ended first."""
        ask = "SELECT pg_xact_status(%s::xid8)"
        if driver.execute(ask, (transaction,)).fetchone()[0] == "in progress":
            end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE backend_xid::text = %s"
            driver.execute(end, (str(int(transaction) % 2**32),))
        return bool(driver.execute(ask, (transaction,)).fetchone()[0] == "committed")

    def cursor(self, connection: Connection) -> "SteadyCursor":
        return SteadyCursor(connection, self._patience)

    def batch(self, cursor: Any) -> contextlib.AbstractContextManager[object]:
        made: contextlib.AbstractContextManager[object] = cursor.connection.pipeline()
        return made

    def load(self, cursor: Any, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        names = ", ".join(f'"{name}"' for name in columns)
        with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as stream:
            for row in rows:
                stream.write_row(row)

    def announce(self, cursor: Any, topic: str) -> None:
        cursor.execute("SELECT pg_notify(%s, %s)", (CHANNEL, topic))

    @contextlib.contextmanager
    def signal(self, topic: str) -> Iterator[Heard]:
        with self._lock:
            if self._listener is None:
                self._listener = Listener(self._connect)
        yield Heard(self._listener, topic)

    def claim(self, run: int, id: str) -> SessionClaim:
        try:
            made = SessionClaim(self._address, key_of(self._schema, f"claim/{run}"), id)
        except psycopg.Error as error:
            raise self.explain(error, is_open=True) from error
        if made.connection is not None:
            _open.add(made.connection)
        self._claims.append(made)
        return made

    def holder(self, run: int) -> int | None:
        with self.engine.connect() as connection:
            driver = connection.connection.driver_connection
            found = find_holder(driver, key_of(self._schema, f"claim/{run}"))
        return None if found is None else found[0]

    def is_lost(self, error: BaseException) -> bool:
        return faults.is_lost(getattr(error, "orig", None) or error)

    def restore(self) -> None:
        for each in self._claims:
            each.restore()
            if each.connection is not None:
                _open.add(each.connection)

    def explain(self, error: BaseException, *, is_open: bool) -> errors.AtollError:
        return faults.explain(error, self.name, is_open=is_open)

    def close(self) -> None:
        with self._lock:
            if self._listener is not None:
                self._listener.close()
                self._listener = None
        self.engine.dispose()


class SteadyCursor:
    """A cursor to read with that asks again on another connection when its own was lost."""

    def __init__(self, connection: Connection, patience: float) -> None:
        self._connection, self._patience = connection, patience
        self._cursor: Any = connection.connection.cursor()

    def execute(self, statement: str, values: Any = ()) -> None:
        try:
            self._cursor.execute(statement, values)
        except psycopg.OperationalError as error:
            if not faults.is_lost(error):
                raise
            self._connection.invalidate()
            self._cursor = self._again().cursor()
            self._cursor.execute(statement, values)

    def _again(self) -> Any:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return self._connection.connection
            except exc.OperationalError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(AGAIN_SECONDS)

    def fetchone(self) -> Any:
        return self._cursor.fetchone()

    def fetchall(self) -> Any:
        return self._cursor.fetchall()

    def close(self) -> None:
        self._cursor.close()


def _let_go() -> None:
    """Closes the sockets that a forked child has inherited, without a word to the server."""
    for each in list(_open):
        if not each.closed:
            with contextlib.suppress(OSError):
                os.close(each.fileno())
    _open.clear()


os.register_at_fork(after_in_child=_let_go)
