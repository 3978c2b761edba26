"""What one kind of database does in its own way: the seam between the store and SQLite or PostgreSQL."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol, Self

from sqlalchemy import Connection, Engine

from atoll import errors


class RunLock(Protocol):
    """The right to write a run, until `release`, the end of a `with` block, or the death of the process."""

    def release(self) -> None:
        """Lets others claim the run; a second call does nothing."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class ChangeSignal(Protocol):
    """Says when there may be something new; whoever waits then looks into the tables, where the truth is."""

    def wait(self, seconds: float) -> None:
        """Returns once somebody committed since the last call (or the start), or when so much time has passed.

        May also return for nothing.
        """


class Dialect(Protocol):
    """One database, as its kind is opened, locked, listened to and explained.

    Attributes:
        name: What messages call it, and what opens it again; never holds a password.
        engine: Of automatic commits: transactions are begun by `begin`.
        is_shared: Other processes may open it, and readers have connections of their own.
        snapshot: Begins a transaction that sees one moment.
        is_near: To ask costs microseconds, so one may ask before one writes.
    """

    name: str
    engine: Engine
    is_shared: bool
    snapshot_statement: str
    is_local: bool

    def initialize(self) -> None:
        """Prepares a new database before its tables are made."""

    def find_identity(self, connection: Connection) -> str:
        """Returns a text that is the same for the same database only."""

    def check_identity(self) -> None:
        """Raises `StoreFailed` where what is written would go nowhere."""

    def begin(self, driver: Any, locks: Sequence[str]) -> str:
        """Begins a transaction and keeps out others that want the same locks; returns its id, if it has one."""

    def was_committed(self, driver: Any, transaction: str) -> bool:
        """Says how a transaction ended whose writer lost the connection while it committed."""

    def cursor(self, connection: Connection) -> Any:
        """Returns a cursor of the driver, to read with for as long as the connection is held."""

    def batch(self, cursor: Any) -> AbstractContextManager[object]:
        """Sends the statements of a block together; nothing can be fetched in it."""

    def bulk_insert(self, cursor: Any, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Adds many rows to a table, as fast as can be."""

    def notify(self, cursor: Any, topic: str) -> None:
        """Wakes those who wait for a topic, when the transaction is committed."""

    def listen(self, topic: str) -> AbstractContextManager[ChangeSignal]:
        """Lends what tells of commits from now on."""

    def lock_run(self, run_number: int, run_id: str) -> RunLock:
        """Takes the right to write a run, or raises `Conflict`."""

    def get_writer_pid(self, run_number: int) -> int | None:
        """Returns the process that writes a run, or None."""

    def is_connection_lost(self, error: BaseException) -> bool:
        """Says whether the connection is gone, so that another one may do."""

    def restore_locks(self) -> None:
        """Takes back what went with a connection that was lost, or raises `Conflict`."""

    def explain(self, error: BaseException, *, is_open: bool) -> errors.AtollError:
        """Returns what happened and what to do; `is_open` says whether the database was ever opened."""

    def close(self) -> None: ...
