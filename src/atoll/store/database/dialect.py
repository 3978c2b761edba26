"""Interface to SQLite and PostgreSQL, and store URLs, which choose between them."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol, Self

import sqlalchemy
from sqlalchemy import Connection, Engine, exc

from atoll import errors
from atoll.store.database import sqlite


class RunLock(Protocol):
    """Exclusive right to write a run, until `release`, the end of a `with` block, or the end of the process."""

    def release(self) -> None:
        """Unlocks the run; a second call does nothing."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class ChangeSignal(Protocol):
    """Signals possible changes; the caller then queries the tables."""

    def wait(self, seconds: float) -> None:
        """Returns after a commit since the last call (or the start), or after this time; may return early."""


class Dialect(Protocol):
    """Operations of one database that differ between SQLite and PostgreSQL.

    Attributes:
        name: URL for messages and for opening it again, without a password.
        engine: Engine with autocommit; `begin` begins transactions.
        is_shared: Whether other processes can open it, and readers have their own connections.
        snapshot_statement: Begins a transaction that sees a snapshot.
        is_local: Whether a query costs only microseconds.
    """

    name: str
    engine: Engine
    is_shared: bool
    snapshot_statement: str
    is_local: bool

    def initialize(self) -> None:
        """Prepares a new database before its tables are created."""

    def find_identity(self, connection: Connection) -> str:
        """Returns a text that identifies the database."""

    def check_identity(self) -> None:
        """Raises `StoreFailed` if the open file was deleted or replaced."""

    def begin(self, driver: Any, locks: Sequence[str]) -> str:
        """Begins a transaction with exclusive locks; returns its id, or an empty text."""

    def was_committed(self, driver: Any, transaction: str) -> bool:
        """Returns whether a transaction was committed whose connection was lost during the commit."""

    def cursor(self, connection: Connection) -> Any:
        """Returns a driver cursor for reading."""

    def batch(self, cursor: Any) -> AbstractContextManager[object]:
        """Sends the statements of a block together; the block must not fetch rows."""

    def bulk_insert(self, cursor: Any, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Inserts many rows fast."""

    def notify(self, cursor: Any, topic: str) -> None:
        """Notifies listeners of a topic when the transaction is committed."""

    def listen(self, topic: str) -> AbstractContextManager[ChangeSignal]:
        """Yields a signal for commits from now on."""

    def lock_run(self, run_number: int, run_id: str) -> RunLock:
        """Locks a run for writing, or raises `Conflict`."""

    def get_writer_pid(self, run_number: int) -> int | None:
        """Returns the id of the process that has locked a run, or None."""

    def is_connection_lost(self, error: BaseException) -> bool:
        """Returns whether the error means a lost connection."""

    def restore_locks(self) -> None:
        """Locks the runs again after a lost connection, or raises `Conflict`."""

    def explain(self, error: BaseException, *, is_open: bool) -> errors.AtollError:
        """Converts a driver error to an Atoll error with advice; `is_open`: whether the database was ever opened."""

    def close(self) -> None: ...


POSTGRES_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
URL_FORMS = "a path, sqlite:///PATH or postgresql://USER@HOST/DATABASE"


def is_postgres(url: str) -> bool:
    return url.partition("://")[0].lower() in POSTGRES_SCHEMES and "://" in url


def is_file_path(url: str) -> bool:
    """Returns whether a store URL is a file path."""
    return "://" not in url.removeprefix("sqlite:///") and not _is_mistyped_postgres(url)


def _is_mistyped_postgres(url: str) -> bool:
    """Returns whether a server was meant; as a file name, its password would be shown."""
    return url.partition(":")[0].lower() in POSTGRES_SCHEMES and ":" in url and "://" not in url


def get_path(url: str) -> str:
    return url.removeprefix("sqlite:///")


def open_database(url: str, *, synchronous: sqlite.Synchronous, busy_seconds: float) -> Dialect:
    """Returns a database without opening it.

    Raises:
        SetupError: The URL is invalid.
        MissingExtra: The extra `postgres` is not installed.
    """
    if not url.strip():
        raise errors.SetupError(f"The store URL is empty. Use {URL_FORMS}, or sqlite:// for a store in memory.")
    if is_postgres(url):
        return _open_postgres(url, busy_seconds)
    if _is_mistyped_postgres(url):
        raise errors.SetupError(f"{url.partition(':')[0]}:... is not a store URL. Use {URL_FORMS}.")
    if "://" not in url:
        return sqlite.Sqlite(sqlalchemy.URL.create("sqlite", database=url), synchronous, busy_seconds)
    scheme = url.partition("://")[0]
    try:
        parsed = sqlalchemy.make_url(url)
    except (exc.ArgumentError, ValueError) as error:
        raise errors.SetupError(f"{scheme}://... is not a store URL. Use {URL_FORMS}.") from error
    if parsed.get_backend_name() != "sqlite":
        raise errors.SetupError(f"{scheme} is not supported; stores are SQLite or PostgreSQL. Use {URL_FORMS}.")
    return sqlite.Sqlite(parsed, synchronous, busy_seconds)


def _open_postgres(url: str, busy_seconds: float) -> Dialect:
    try:
        from atoll.store.database import postgres
    except ImportError as error:
        raise errors.MissingExtra("PostgreSQL stores need an extra. Run: pip install 'atoll[postgres]'") from error
    return postgres.Postgres(url, busy_seconds)
