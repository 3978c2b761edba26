"""Interface to SQLite and PostgreSQL."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol, Self

from sqlalchemy import Connection, Engine

from atoll import errors


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
