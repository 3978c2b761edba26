"""The store: all data of runs, in an SQLite file or a PostgreSQL database; it refuses unknown views and triggers."""

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, NamedTuple, Self

from sqlalchemy import Connection, Select, Table, insert, select

from atoll import errors
from atoll.candidate import EMPTY, JSON
from atoll.store import candidates, event_streams
from atoll.store.database import dialect, schema, sqlite
from atoll.store.database.database import Database, retry_transaction
from atoll.store.records import leases, seals
from atoll.store.records import leases as leasing
from atoll.store.records.blobs import Blobs, insert_blobs
from atoll.store.records.journal import RecordFeed, StoredInbox, StoredJournal
from atoll.store.records.json_codec import PackedJSON, pack, unpack
from atoll.store.versions.ledger import StoredVersions
from atoll.store.versions.sql_change_log import SQLChangeLog

ID_ALPHABET = "23456789abcdefghjkmnpqrstvwxyz"  # without look-alikes
RUNS_LOCK = "runs"  # held while a run is created

_runs = schema.runs.c


class Run(NamedTuple):
    """Id, time of creation and configuration of a run."""

    id: str
    created_at: datetime
    config: Mapping[str, Any]


def now() -> datetime:
    return datetime.now(UTC)


class Runs:
    """Creates and finds runs."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = now) -> None:
        self._database, self._blobs, self._clock = database, Blobs(database), clock
        self._rng = random.SystemRandom()

    def create(self, run_id: str | None, config: Mapping[str, JSON]) -> str:
        if run_id is not None and not run_id.strip():
            raise errors.SetupError("The run id is empty. Pass another one, or None to generate it.")
        created_at, packed = self._clock(), pack(config)
        seals.create_table(self._database)
        return retry_transaction(lambda: self._create(run_id, created_at, packed))

    def _create(self, run_id: str | None, created_at: datetime, packed: PackedJSON) -> str:
        with self._database.begin_write(RUNS_LOCK) as connection:
            known_ids = set(connection.execute(select(_runs.id)).scalars())
            if run_id in known_ids:
                raise errors.SetupError(f"Run {run_id} exists already in {self._database.name}. Choose another id.")
            while run_id is None or run_id in known_ids:
                run_id = f"{created_at:%Y%m%d-%H%M%S}-{''.join(self._rng.choices(ID_ALPHABET, k=4))}"
            insert_blobs(connection, packed.blobs)
            row = {"id": run_id, "created_at": created_at.isoformat(), "config": packed.text, "links": packed.links}
            number = connection.execute(insert(schema.runs).returning(_runs.number), row).scalar_one()
            sealed_row = (0, run_id, row["created_at"], packed.text, packed.links)
            seals.add_seal(connection, number, seals.RUN, [sealed_row])
        return run_id

    def list_all(self) -> Sequence[Run]:
        """Returns all runs, newest first."""
        return self._fetch(_select_runs().order_by(_runs.number.desc()))

    def get(self, run_id: str) -> Run:
        """Returns a run or raises `NotFound`."""
        runs = self._fetch(_select_runs().where(_runs.id == run_id))
        if not runs:
            raise self._make_not_found(run_id)
        return runs[0]

    def get_number(self, run_id: str) -> int:
        """Returns the number of a run, its key in the other tables, or raises `NotFound`."""
        with self._database.begin_read() as connection:
            number: int | None = connection.execute(select(_runs.number).where(_runs.id == run_id)).scalar()
        if number is None:
            raise self._make_not_found(run_id)
        return number

    def _fetch(self, query: Select[Any]) -> Sequence[Run]:
        return [
            Run(run_id, datetime.fromisoformat(created_at), unpack(config, links, self._blobs.get))
            for run_id, created_at, config, links in self._database.fetch_rows(query)
        ]

    def _make_not_found(self, run_id: str) -> errors.NotFound:
        return errors.NotFound(f"Run {run_id} not found in {self._database.name}.")


def _select_runs() -> Select[Any]:
    return select(_runs.id, _runs.created_at, _runs.config, _runs.links)


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
        clock: Callable[[], datetime] = now,
    ) -> None:
        self.database = Database(os.fspath(url), synchronous=synchronous, busy_seconds=busy_seconds)
        self._runs, self._clock = Runs(self.database, clock), clock
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
