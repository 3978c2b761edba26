"""Journal, inbox, bodies and versions inside one process: for tests, and for runs that nobody wants back."""

import hashlib
from collections.abc import Iterator, Sequence
from threading import Lock

from atoll import errors
from atoll.candidate import JSON
from atoll.control import Command, Kind
from atoll.evaluation import BlobRef
from atoll.journal import Record
from atoll.store.memory_book import MemoryBook
from atoll.store.versions import LedgerVersions

ALL = -1  # the island of a record that concerns all of them


class MemoryJournal:
    """Keeps records in a list."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._lock = Lock()

    def write(self, *records: Record) -> None:
        with self._lock:
            self.records.extend(records)

    def read(self, island: int | None = None) -> Iterator[Record]:
        with self._lock:
            records = list(self.records)
        return (record for record in records if island is None or record.island in (island, ALL))


class MemoryBlobs:
    """Bodies inside one process."""

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}

    def hold(self, body: bytes) -> BlobRef:
        key = hashlib.sha256(body).hexdigest()
        self._bodies[key] = body
        return BlobRef(key, len(body), body[:80].decode("utf-8", "replace"))

    def body(self, ref: BlobRef) -> bytes:
        if ref.sha256 not in self._bodies:
            raise errors.NotFound(f"There is no blob {ref.sha256}.")
        return self._bodies[ref.sha256]


class MemoryInbox:
    """An inbox inside one process."""

    def __init__(self) -> None:
        self._commands: list[Command] = []
        self._lock = Lock()

    def post(self, kind: Kind, /, **data: JSON) -> int:
        """Leaves a command and returns its number."""
        with self._lock:
            self._commands.append(Command(len(self._commands) + 1, kind, data))
            return len(self._commands)

    def read(self, after: int) -> Sequence[Command]:
        with self._lock:
            return self._commands[after:]


class MemoryVersions(LedgerVersions):
    """Versions inside one process."""

    def __init__(self) -> None:
        super().__init__(MemoryBook())
