"""The store: all data of runs, in an SQLite file or a PostgreSQL database; it refuses unknown views and triggers."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, Table

from atoll.candidate import EMPTY, JSON
from atoll.store import candidates, event_streams, runs
from atoll.store.database import dialect, schema, sqlite
from atoll.store.database.database import Database
from atoll.store.records import leases, seals
from atoll.store.records import leases as leasing
from atoll.store.records.blobs import Blobs
from atoll.store.records.journal import RecordFeed, StoredInbox, StoredJournal
from atoll.store.runs import Run
from atoll.store.versions.ledger import StoredVersions
from atoll.store.versions.sql_change_log import SQLChangeLog

TABLES = {
    table.name: table
    for metadata in (schema.metadata, event_streams.metadata, seals.metadata, leases.metadata)
    for table in metadata.sorted_tables
}
INDEXES = {str(index.name): table.name for table in TABLES.values() for index in table.indexes}
SQLITE_PREFIX = "sqlite_"  # reserved for SQLite


def find_unexpected_objects(connection: Connection) -> Sequence[str]:
    """Returns descriptions of unexpected objects, e.g. `the trigger t on changes`.

    Checks SQLite only: views, triggers, other tables and indexes, and changed columns. PostgreSQL has its own
    permissions.
    """
    if connection.dialect.name != "sqlite":
        return []
    return [*_find_objects(connection), *_find_changed_columns(connection)]


def _find_objects(connection: Connection) -> Iterator[str]:
    query = "SELECT type, name, tbl_name FROM sqlite_master ORDER BY type, name"
    for kind, name, table in connection.exec_driver_sql(query).all():
        is_expected = (kind == "table" and name in TABLES) or (kind == "index" and INDEXES.get(name) == table)
        if not is_expected and not (kind in ("table", "index") and str(name).startswith(SQLITE_PREFIX)):
            yield f"the {kind} {name}{'' if name == table else f' on {table}'}"


def _find_changed_columns(connection: Connection) -> Iterator[str]:
    for name, table in TABLES.items():
        columns = connection.exec_driver_sql(f"PRAGMA table_xinfo({name})").all()
        if columns and not _has_plain_columns(columns, table):
            yield f"the changed columns of {name}"


def _has_plain_columns(columns: Sequence[Any], table: Table) -> bool:
    """Returns whether a table has exactly its columns, without defaults, computed or hidden columns."""
    properties = {column: (default, hidden) for _, column, _, _, default, _, hidden in columns}
    return properties == {column.name: (None, 0) for column in table.columns}


class Store:
    """Holds many runs. Thread-safe; other processes open the same file or database.

    Readers and writers do not wait for each other. In a file, writers of different runs take turns.

    Args:
        url: A path, `sqlite:///PATH`, `sqlite://` (in memory), or `postgresql://USER@HOST/DATABASE`.
        synchronous: SQLite only. `NORMAL` survives a crash of any process; `FULL` also of the machine, but is slower.
        busy_seconds: How long to wait for locks of other processes.
        clock: Returns the time of new runs and versions.

    Raises:
        SetupError: The URL is not a store, or a newer Atoll wrote it.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        synchronous: sqlite.Synchronous = "NORMAL",
        busy_seconds: float = 30.0,
        clock: Callable[[], datetime] = runs.now,
    ) -> None:
        self.database = Database(os.fspath(url), synchronous=synchronous, busy_seconds=busy_seconds)
        self._runs, self._clock = runs.Runs(self.database, clock), clock
        self._run_locks: list[dialect.RunLock] = []

    def create_run(self, run_id: str | None = None, config: Mapping[str, JSON] = EMPTY) -> str:
        """Creates a run and returns its id; the default id looks like `20261115-142233-x7k2`.

        Raises:
            SetupError: The id exists already.
        """
        return self._runs.create(run_id, config)

    def list_runs(self) -> Sequence[Run]:
        """Returns all runs, newest first."""
        return self._runs.list_all()

    def get_run(self, run_id: str) -> Run:
        """Returns a run as it was created.

        Raises:
            NotFound: The run does not exist.
        """
        return self._runs.get(run_id)

    def get_writer_pid(self, run_id: str) -> int | None:
        """Returns the id of the process that writes a run now, or None.

        Raises:
            NotFound: The run does not exist.
        """
        return self.database.dialect.get_writer_pid(self._runs.get_number(run_id))

    def has_writer(self, run_id: str) -> bool:
        """Returns whether a process writes a run now, alone or as a coordinator of a shared run.

        Raises:
            NotFound: The run does not exist.
        """
        return self.get_writer_pid(run_id) is not None or bool(self.list_coordinators(run_id))

    def lock_run(self, run_id: str) -> dialect.RunLock:
        """Locks a run for writing, until `release`, the end of a `with` block, or the end of the process.

        Raises:
            NotFound: The run does not exist.
            Conflict: Another process has locked it.
        """
        run_lock = self.database.dialect.lock_run(self._runs.get_number(run_id), run_id)
        self._run_locks.append(run_lock)
        return run_lock

    def leases(self, run_id: str, owner: str, seconds: float) -> leasing.Leases:
        """Returns the island leases of a coordinator.

        Raises:
            NotFound: The run does not exist.
        """
        return leasing.Leases(self.database, self._runs.get_number(run_id), owner, seconds)

    def list_lease_intervals(self, run_id: str) -> Sequence[leasing.LeaseInterval]:
        """Returns the owners of the islands of a shared run, with times.

        Raises:
            NotFound: The run does not exist.
        """
        return leasing.list_intervals(self.database, self._runs.get_number(run_id))

    def list_coordinators(self, run_id: str) -> Sequence[str]:
        """Returns the live coordinators of a shared run.

        Raises:
            NotFound: The run does not exist.
        """
        return leasing.list_coordinators(self.database, self._runs.get_number(run_id))

    def journal(self, run_id: str, *, is_shared: bool = False) -> StoredJournal:
        """Returns the journal of a run.

        Args:
            is_shared: Whether other processes write it too, e.g. each for its own islands.

        Raises:
            NotFound: The run does not exist.
        """
        return StoredJournal(self.database, self._runs.get_number(run_id), is_shared=is_shared)

    def feed(self, run_id: str) -> RecordFeed:
        """Returns a feed of the records of a run.

        Raises:
            NotFound: The run does not exist.
        """
        return RecordFeed(self.database, self._runs.get_number(run_id))

    def candidates(self, run_id: str) -> candidates.Candidates:
        """Returns the candidates of a run.

        Raises:
            NotFound: The run does not exist.
        """
        return candidates.Candidates(self.database, self._runs.get_number(run_id))

    def export(self, run_id: str) -> Iterator[str]:
        """Yields the candidates of a run as JSON lines, by iteration; equal runs give equal bytes.

        Raises:
            NotFound: The run does not exist.
        """
        return candidates.iter_json_lines(self.candidates(run_id))

    def inbox(self, run_id: str) -> StoredInbox:
        """Returns the inbox of a run, which holds commands to it.

        Raises:
            NotFound: The run does not exist.
        """
        return StoredInbox(self.database, self._runs.get_number(run_id))

    def versions(self) -> StoredVersions:
        """Returns the versioned values that all runs share."""
        return StoredVersions(self.database, self._clock)

    def change_log(self) -> SQLChangeLog:
        """Returns the log of all changes of versioned values."""
        return SQLChangeLog(self.database)

    def blobs(self) -> Blobs:
        """Returns the blobs that all runs share."""
        return Blobs(self.database)

    def find_unexpected_objects(self) -> Sequence[str]:
        """Returns database objects that Atoll did not create, such as triggers."""
        with self.database.begin_read() as connection:
            return find_unexpected_objects(connection)

    def close(self) -> None:
        """Releases all locks and connections."""
        for run_lock in self._run_locks:
            run_lock.release()
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open(
    url: str | os.PathLike[str], *, synchronous: sqlite.Synchronous = "NORMAL", busy_seconds: float = 30.0
) -> Store:
    """Opens a store; creates it if it does not exist."""
    return Store(url, synchronous=synchronous, busy_seconds=busy_seconds)
