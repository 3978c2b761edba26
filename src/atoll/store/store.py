"""The store: everything that runs leave behind, in one file or one database of a server."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self

from atoll.candidate import JSON, NOTHING
from atoll.store import candidates, dialect, runs, sqlite, strangers
from atoll.store import leases as leasing
from atoll.store.blobs import Blobs
from atoll.store.changes import StoredBook
from atoll.store.database import Database
from atoll.store.feed import Feed
from atoll.store.inbox import StoredInbox
from atoll.store.journal import StoredJournal
from atoll.store.runs import Run
from atoll.store.versions import StoredVersions


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
        self._claims: list[dialect.Claim] = []

    def create(self, run: str | None = None, config: Mapping[str, JSON] = NOTHING) -> str:
        """Begins a run and returns its id, a new one like `20261115-142233-x7k2` if none is given.

        Raises:
            SetupError: There is a run of that id.
        """
        return self._runs.create(run, config)

    def runs(self) -> Sequence[Run]:
        """Returns all runs, newest first."""
        return self._runs.all()

    def run(self, run: str) -> Run:
        """Returns one run as it was created.

        Raises:
            NotFound: There is no such run.
        """
        return self._runs.get(run)

    def holder(self, run: str) -> int | None:
        """Returns the id of the process that writes a run at this moment, or None.

        Raises:
            NotFound: There is no such run.
        """
        return self.database.dialect.holder(self._runs.number(run))

    def is_written(self, run: str) -> bool:
        """Says whether a process writes a run at this moment: one that has claimed it, or coordinators that share it.

        Raises:
            NotFound: There is no such run.
        """
        return self.holder(run) is not None or bool(self.leaders(run))

    def claim(self, run: str) -> dialect.Claim:
        """Takes the right to write a run until `release`, the end of a `with` block, or the death of the process.

        Raises:
            NotFound: There is no such run.
            Conflict: Somebody alive has it.
        """
        claim = self.database.dialect.claim(self._runs.number(run), run)
        self._claims.append(claim)
        return claim

    def leases(self, run: str, owner: str, seconds: float) -> leasing.Leases:
        """Returns the leases of a coordinator on the islands of a run.

        Raises:
            NotFound: There is no such run.
        """
        return leasing.Leases(self.database, self._runs.number(run), owner, seconds)

    def ownerships(self, run: str) -> Sequence[leasing.Interval]:
        """Returns who led which island of a shared run, and when.

        Raises:
            NotFound: There is no such run.
        """
        return leasing.audit(self.database, self._runs.number(run))

    def leaders(self, run: str) -> Sequence[str]:
        """Returns the coordinators of a shared run that are alive.

        Raises:
            NotFound: There is no such run.
        """
        return leasing.leaders(self.database, self._runs.number(run))

    def journal(self, run: str, *, is_shared: bool = False) -> StoredJournal:
        """Returns the journal of a run.

        Args:
            is_shared: Other processes write it too, e.g. each the records of its own islands.

        Raises:
            NotFound: There is no such run.
        """
        return StoredJournal(self.database, self._runs.number(run), is_shared=is_shared)

    def feed(self, run: str) -> Feed:
        """Returns what tells of a run's records as they come.

        Raises:
            NotFound: There is no such run.
        """
        return Feed(self.database, self._runs.number(run))

    def candidates(self, run: str) -> candidates.Candidates:
        """Returns what a run has tried.

        Raises:
            NotFound: There is no such run.
        """
        return candidates.Candidates(self.database, self._runs.number(run))

    def export(self, run: str) -> Iterator[str]:
        """Yields the candidates of a run as lines of JSON, by step; equal runs give equal bytes.

        Raises:
            NotFound: There is no such run.
        """
        return candidates.export(self.candidates(run))

    def inbox(self, run: str) -> StoredInbox:
        """Returns the inbox of a run, for the run itself and for whoever wants something of it.

        Raises:
            NotFound: There is no such run.
        """
        return StoredInbox(self.database, self._runs.number(run))

    def versions(self) -> StoredVersions:
        """Returns the versions, which all runs share."""
        return StoredVersions(self.database, self._clock)

    def book(self) -> StoredBook:
        """Returns the changes of all versions, as a ledger keeps them."""
        return StoredBook(self.database)

    def blobs(self) -> Blobs:
        """Returns the bodies, which all runs share."""
        return Blobs(self.database)

    def strangers(self) -> Sequence[str]:
        """Returns what stands in the database that no Atoll put there, such as a trigger."""
        with self.database.reading() as connection:
            return strangers.strangers(connection)

    def close(self) -> None:
        """Frees all claims and connections; beside the file nothing is left."""
        for claim in self._claims:
            claim.release()
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
