"""Journal, inbox, bodies and versions inside one process: for tests, and for runs that nobody wants back."""

import hashlib
from collections.abc import Iterator, Sequence
from threading import Lock

from atoll import errors
from atoll.candidate import JSON
from atoll.control import Command, CommandKind
from atoll.evaluation import BlobRef
from atoll.journal import Record
from atoll.store.memory_book import MemoryChangeLog
from atoll.store.versions import LedgerVersions

ALL_ISLANDS = -1  # the island of a record that concerns all of them


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
        return (record for record in records if island is None or record.island in (island, ALL_ISLANDS))


class MemoryBlobs:
    """Bodies inside one process."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    def save_blob(self, data: bytes) -> BlobRef:
        key = hashlib.sha256(data).hexdigest()
        self._contents[key] = data
        return BlobRef(key, len(data), data[:80].decode("utf-8", "replace"))

    def load_blob(self, ref: BlobRef) -> bytes:
        if ref.sha256 not in self._contents:
            raise errors.NotFound(f"There is no blob {ref.sha256}.")
        return self._contents[ref.sha256]


class MemoryInbox:
    """An inbox inside one process."""

    def __init__(self) -> None:
        self._commands: list[Command] = []
        self._lock = Lock()

    def post(self, kind: CommandKind, /, **data: JSON) -> int:
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
        super().__init__(MemoryChangeLog())
