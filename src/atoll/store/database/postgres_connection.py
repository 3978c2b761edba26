"""Connections to PostgreSQL: URLs, error messages, and run locks, which a connection holds."""

import contextlib
import functools
import hashlib
import os
import socket
import time
from collections.abc import Mapping
from threading import Lock
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode

import psycopg
from psycopg import conninfo

from atoll import errors
from atoll.store.versions.errors import Interrupted

CONNECT_SECONDS = 10
SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
# The server checks silent clients, so that locks of a lost machine are free after a minute.
KEEPALIVE = "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"


class ConnectionInfo:
    """Parameters of a connection.

    Attributes:
        name: URL without secrets; usable if the password comes from `PGPASSWORD` or a password file.

    Raises:
        SetupError: The URL is invalid; the message contains no password.
    """

    def __init__(self, url: str, busy_seconds: float) -> None:
        normalized_url = f"postgresql://{url.partition('://')[2]}"
        try:
            options: Mapping[str, Any] = conninfo.conninfo_to_dict(normalized_url)
        except psycopg.ProgrammingError:
            raise errors.SetupError(
                "postgresql://... is not a valid URL. Use postgresql://USER@HOST/DATABASE, "
                "or postgresql:///DATABASE?host=FOLDER for a socket."
            ) from None  # its message may contain a password
        _check_parts(options)
        self.name = _format_url(options)
        self._options = {**options}
        server_options = f"-c lock_timeout={max(1, round(busy_seconds * 1000))} {KEEPALIVE}"
        self._options["options"] = f"{server_options} {options.get('options') or ''}".strip()
        self._options.setdefault("connect_timeout", CONNECT_SECONDS)
        self._options["client_encoding"] = "utf8"

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Opens a connection with autocommit and our application name."""
        return psycopg.connect(**{"application_name": make_application_name(), **self._options}, autocommit=True)


def make_application_name() -> str:
    """Returns the name of this process for the server, which keeps 63 characters."""
    return f"atoll {os.getpid()}@{socket.gethostname()}"[:63]


def parse_application_name(application: str) -> tuple[int, str] | None:
    """Returns process id and machine from `make_application_name`; None for other programs."""
    program, _, address = application.partition(" ")
    pid, _, machine = address.partition("@")
    return (int(pid), machine) if program == "atoll" and pid.isdigit() else None


def _check_parts(options: Mapping[str, Any]) -> None:
    """Rejects URLs with an unescaped `@` or `/` in the password, which would be shown as a host or database."""
    host, port = str(options.get("host") or ""), str(options.get("port") or "")
    is_split = "@" in host.removeprefix("@") or "@" in str(options.get("dbname") or "")
    if is_split or not (port.replace(",", "") or "0").isdecimal():
        raise errors.SetupError(
            "postgresql://... is not a valid URL. In user and password write @ as %40, / as %2F and : as %3A; the port "
            "must be a number. Better omit the password and set PGPASSWORD."
        )


def _format_url(options: Mapping[str, Any]) -> str:
    parameters = {name: value for name, value in options.items() if name not in SECRETS}
    user, host, port = (str(parameters.pop(name, "") or "") for name in ("user", "host", "port"))
    netloc = f"{quote(user, safe='')}@" if user else ""
    if host.startswith(("/", "@")) or "," in host:
        parameters |= {"host": host, **({"port": port} if port else {})}
    else:
        netloc += f"[{host}]" if ":" in host else host
        netloc += f":{port}" if port else ""
    database = quote(str(parameters.pop("dbname", "") or ""), safe="")
    return f"postgresql://{netloc}/{database}" + (
        f"?{urlencode(parameters, safe='/', quote_via=quote)}" if parameters else ""
    )


CONNECTION_LOST_CODES = ("57P01", "57P02", "57P03", "57P05")  # shutdown, crash, starting, idle timeout
UNIQUE_VIOLATION = "23505"  # a row of that key is there already
RETRY_CODES = ("40001", "40P01")  # serialization failure, deadlock

# By error code or its first two characters.
MESSAGES = {
    "53100": "The disk of {name} is full. Free space, then resume. All commits are kept.",
    "53300": "{name} has no free connection. Close some, or raise its max_connections.",
    "53": "{name} is out of resources. Free some, then resume. All commits are kept.",
    "25006": "{name} is read-only. Use the URL of the primary server.",
    "55P03": "{name} is locked by another program. End its transaction, or wait longer.",
    "42501": "{name} denies access. Get permission to use and create tables in its schema.",
    "3F000": "{name} has no schema for tables. Create one, or add it to the search path.",
    "22021": "A text contains a character that {name} cannot store. Remove it.",
    "58": "The disk of {name} failed. All earlier commits are kept.",
    "XX": "{name} is damaged. Check the server's log and restore a backup.",
}

# Without a connection, errors have no code, only a message.
CONNECT_MESSAGES = {
    "password authentication failed": "{name} rejects the user or password. Correct them, or set PGPASSWORD.",
    "no password supplied": "{name} needs a password. Set PGPASSWORD, or add it to ~/.pgpass.",
    "fe_sendauth": "{name} needs a password. Set PGPASSWORD, or add it to ~/.pgpass.",
    "no pg_hba.conf entry": "{name} rejects this machine or user. Add them to the server's pg_hba.conf.",
    "authentication failed": "{name} rejects the user. Use another one in the URL.",
    'database "': "Database {name} not found. Create it with `createdb`, or use another one.",
    'role "': "{name} does not know the user. Use another one in the URL.",
    "too many clients": "{name} has no free connection. Close some, or raise its max_connections.",
    "remaining connection slots": "{name} has no free connection. Close some, or raise its max_connections.",
    "starting up": "{name} is starting. Try again in a moment.",
    "resolve host": "The host name in {name} is unknown. Correct the URL.",
    "translate host": "The host name in {name} is unknown. Correct the URL.",
}
NO_SERVER_MESSAGE = "No server answers at {name}. Start it, or use another URL."


def is_connection_lost(error: BaseException) -> bool:
    """Returns whether a connection was lost or failed."""
    code: str | None = getattr(error, "sqlstate", None)
    if not isinstance(error, psycopg.OperationalError):
        return False
    return code is None or code.startswith("08") or code in CONNECTION_LOST_CODES


def explain(error: BaseException, name: str, *, is_open: bool) -> errors.AtollError:
    """Converts a driver error to an Atoll error with advice."""
    code: str = getattr(error, "sqlstate", None) or ""
    error_text = " ".join(str(error).split())
    if code in RETRY_CODES:
        return Interrupted(f"Another transaction of {name} interfered. Try again. ({error_text})")
    if code == UNIQUE_VIOLATION:
        return errors.Conflict(f"Another process wrote the same run in {name}. End it, then resume the run.")
    if is_connection_lost(error):
        if is_open:
            return Interrupted(f"Lost the connection to {name}. All commits are kept. ({error_text})")
        messages = (message for pattern, message in CONNECT_MESSAGES.items() if pattern in error_text)
        return errors.SetupError(f"{next(messages, NO_SERVER_MESSAGE).format(name=name)} ({error_text})")
    message_format = next(
        (MESSAGES[prefix] for prefix in (code, code[:2]) if prefix in MESSAGES), "{name} could not be read or written."
    )
    if not code and "NUL" in error_text:
        message_format = MESSAGES["22021"]
    error_type = errors.StoreFailed if is_open else errors.SetupError
    return error_type(f"{message_format.format(name=name)} ({error_text})")


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

    def __init__(self, connection_info: ConnectionInfo, key: int, run_id: str) -> None:
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
    return None if row is None else parse_application_name(row[0]) or (0, "")


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
