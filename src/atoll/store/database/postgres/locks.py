"""Run locks of PostgreSQL, held by a connection."""

import contextlib
import functools
import hashlib
import os
import socket
import time
from threading import Lock
from types import TracebackType
from typing import Any, Self

import psycopg

from atoll import errors
from atoll.store.database.postgres import connection as postgres_connection

WAIT_SECONDS = 1.0  # for the server to notice that the last owner was killed
RETRY_SECONDS = 0.02

_OWNER_QUERY = """
SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND classid::bigint = %s AND objid::bigint = %s
AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@functools.cache
def make_lock_key(schema: str, name: str) -> int:
    """Returns the number of an advisory lock; a database has one number space for all programs."""
    return int.from_bytes(hashlib.sha256(f"atoll/{schema}/{name}".encode()).digest()[:8], signed=True)


class SessionRunLock:
    """Locks a run until `release` or the end of the process, by an advisory lock on its own connection.

    The server releases the lock with the connection: at once if the process dies, after a minute if its machine or
    network does.
    """

    def __init__(self, connection_info: postgres_connection.ConnectionInfo, key: int, run_id: str) -> None:
        self._connection_info, self._key, self._run_id = connection_info, key, run_id
        self._lock = Lock()
        self._connection: psycopg.Connection[Any] | None = self._acquire()

    @property
    def connection(self) -> psycopg.Connection[Any] | None:
        return self._connection

    def restore(self) -> None:
        """Locks the run again if the connection was lost.

        Raises:
            Conflict: Another process has locked it meanwhile.
        """
        with self._lock:
            if self._connection is None or is_alive(self._connection):
                return
            self._connection = self._acquire()

    def release(self) -> None:
        """Unlocks the run; a second call does nothing."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                with contextlib.suppress(psycopg.Error):  # closing the connection unlocks it anyway
                    connection.execute("SELECT pg_advisory_unlock(%s::bigint)", (self._key,))
                connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _acquire(self) -> psycopg.Connection[Any]:
        connection = self._connection_info.connect()
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            row = connection.execute("SELECT pg_try_advisory_lock(%s::bigint)", (self._key,)).fetchone()
            if row is not None and row[0]:
                return connection
            if time.monotonic() > deadline:
                break
            time.sleep(RETRY_SECONDS)
        owner = find_lock_owner(connection, self._key)
        connection.close()
        raise errors.Conflict(
            f"Run {self._run_id} is being written by {_describe_owner(owner)}. Wait for its end, or stop it."
        )


def find_lock_owner(connection: Any, key: int) -> tuple[int, str] | None:
    """Returns process id and machine of a lock's owner; id 0: another program; None: not locked."""
    unsigned = key & (2**64 - 1)
    row = connection.execute(_OWNER_QUERY, (unsigned >> 32, unsigned & (2**32 - 1))).fetchone()
    return None if row is None else postgres_connection.parse_application_name(row[0]) or (0, "")


def is_alive(connection: psycopg.Connection[Any]) -> bool:
    try:
        connection.execute("SELECT 1")
    except psycopg.Error:
        connection.close()
        return False
    return True


def _describe_owner(owner: tuple[int, str] | None) -> str:
    if owner is None or not owner[0]:
        return "another process"
    pid, machine = owner
    is_local = socket.gethostname().startswith(machine)  # the name may be cut
    if is_local and pid == os.getpid():
        return "this process"
    return f"process {pid}" + ("" if is_local else f" on {machine}")
