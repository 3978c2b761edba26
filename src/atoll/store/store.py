"""The store: everything that runs leave behind, in one file or one database of a server."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self

from atoll.candidate import EMPTY, JSON
from atoll.store import runs
from atoll.store.candidates import candidates
from atoll.store.database import dialect, schema_check, sqlite
from atoll.store.database.database import Database
from atoll.store.records import leases as leasing
from atoll.store.records.blobs import Blobs
from atoll.store.records.feed import RecordFeed
from atoll.store.records.journal import StoredInbox, StoredJournal
from atoll.store.runs import Run
from atoll.store.versions.sql_change_log import SQLChangeLog
from atoll.store.versions.versions import StoredVersions


class Store:
    """Holds many runs. Threads may share it; other processes open the same file or database.

    Readers never wait for writers, nor writers for readers; in a file, writers of different runs take turns by the
    commit.

    Args:
        url: A path, `sqlite:///PATH`, `sqlite://` for one in memory that ends with this object, or
            `postgresql://USER@HOST/DATABASE`.
        synchronous: `NORMAL` survives the death of any process; `FULL` also that of the machine, and is slower. A
            server does as it is set up.
        busy_seconds: How long to wait for other processes before giving up.
        clock: Says when a run was created and a version was made.

    Raises:
        SetupError: That is no store, or one of a newer Atoll.
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
        """Begins a run and returns its id, a new one like `20261115-142233-x7k2` if none is given.

        Raises:
            SetupError: There is a run of that id.
        """
        return self._runs.create(run_id, config)

    def list_runs(self) -> Sequence[Run]:
        """Returns all runs, newest first."""
        return self._runs.list_all()

    def get_run(self, get_run: str) -> Run:
        """Returns one run as it was created.

        Raises:
            NotFound: There is no such run.
        """
        return self._runs.get(get_run)

    def get_writer_pid(self, run_id: str) -> int | None:
        """Returns the id of the process that writes a run at this moment, or None.

        Raises:
            NotFound: There is no such run.
        """
        return self.database.dialect.get_writer_pid(self._runs.get_number(run_id))

    def has_writer(self, run_id: str) -> bool:
        """Says whether a process writes a run at this moment: one that has claimed it, or coordinators that share it.

        Raises:
            NotFound: There is no such run.
        """
        return self.get_writer_pid(run_id) is not None or bool(self.list_coordinators(run_id))

    def lock_run(self, run_id: str) -> dialect.RunLock:
        """Takes the right to write a run until `release`, the end of a `with` block, or the death of the process.

        Raises:
            NotFound: There is no such run.
            Conflict: Somebody alive has it.
        """
        run_lock = self.database.dialect.lock_run(self._runs.get_number(run_id), run_id)
        self._run_locks.append(run_lock)
        return run_lock

    def leases(self, run_id: str, owner: str, seconds: float) -> leasing.Leases:
        """Returns the leases of a coordinator on the islands of a run.

        Raises:
            NotFound: There is no such run.
        """
        return leasing.Leases(self.database, self._runs.get_number(run_id), owner, seconds)

    def list_lease_intervals(self, run_id: str) -> Sequence[leasing.LeaseInterval]:
        """Returns who led which island of a shared run, and when.

        Raises:
            NotFound: There is no such run.
        """
        return leasing.list_intervals(self.database, self._runs.get_number(run_id))

    def list_coordinators(self, run_id: str) -> Sequence[str]:
        """Returns the coordinators of a shared run that are alive.

        Raises:
            NotFound: There is no such run.
        """
        return leasing.list_coordinators(self.database, self._runs.get_number(run_id))

    def journal(self, run_id: str, *, is_shared: bool = False) -> StoredJournal:
        """Returns the journal of a run.

        Args:
            is_shared: Other processes write it too, e.g. each the records of its own islands.

        Raises:
            NotFound: There is no such run.
        """
        return StoredJournal(self.database, self._runs.get_number(run_id), is_shared=is_shared)

    def feed(self, run_id: str) -> RecordFeed:
        """Returns what tells of a run's records as they come.

        Raises:
            NotFound: There is no such run.
        """
        return RecordFeed(self.database, self._runs.get_number(run_id))

    def candidates(self, run_id: str) -> candidates.Candidates:
        """Returns what a run has tried.

        Raises:
            NotFound: There is no such run.
        """
        return candidates.Candidates(self.database, self._runs.get_number(run_id))

    def export(self, run_id: str) -> Iterator[str]:
        """Yields the candidates of a run as lines of JSON, by step; equal runs give equal bytes.

        Raises:
            NotFound: There is no such run.
        """
        return candidates.iter_json_lines(self.candidates(run_id))

    def inbox(self, run_id: str) -> StoredInbox:
        """Returns the inbox of a run, for the run itself and for whoever wants something of it.

        Raises:
            NotFound: There is no such run.
        """
        return StoredInbox(self.database, self._runs.get_number(run_id))

    def versions(self) -> StoredVersions:
        """Returns the versions, which all runs share."""
        return StoredVersions(self.database, self._clock)

    def change_log(self) -> SQLChangeLog:
        """Returns the changes of all versions, as a ledger keeps them."""
        return SQLChangeLog(self.database)

    def blobs(self) -> Blobs:
        """Returns the bodies, which all runs share."""
        return Blobs(self.database)

    def find_unexpected_objects(self) -> Sequence[str]:
        """Returns what stands in the database that no Atoll put there, such as a trigger."""
        with self.database.begin_read() as connection:
            return schema_check.find_unexpected_objects(connection)

    def close(self) -> None:
        """Frees all claims and connections; beside the file nothing is left."""
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
    """Opens a store, making it where there is none."""
    return Store(url, synchronous=synchronous, busy_seconds=busy_seconds)
