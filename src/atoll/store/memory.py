"""Journal, inbox, blobs and versions in memory, for tests and for runs that are not stored."""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Condition, Lock, RLock

from atoll import errors
from atoll.candidate import JSON
from atoll.control import Command, CommandKind
from atoll.evaluation import BlobRef
from atoll.journal import Record
from atoll.store.versions.change import LOCK, UNLOCK, ChangeEntry, KeyState, LogEnd, find_last_alias_change
from atoll.store.versions.ledger import LedgerVersions


class MemoryChangeLog:
    """Changes in a list, with an index by key."""

    def __init__(self) -> None:
        self._entries: list[ChangeEntry] = []
        self._versions: dict[str, list[ChangeEntry]] = {}
        self._annotations: dict[str, list[ChangeEntry]] = {}
        self._tokens: dict[str, ChangeEntry] = {}
        self._changed = Condition(RLock())

    @contextmanager
    def begin_write(self) -> Iterator["MemoryChangeLog"]:
        with self._changed:
            old_length = len(self._entries)
            try:
                yield self
            except BaseException:
                while len(self._entries) > old_length:
                    self._remove(self._entries.pop())
                raise
            self._changed.notify_all()

    def append(self, change: ChangeEntry) -> None:
        self._entries.append(change)
        index = self._annotations if change.n is None else self._versions
        index.setdefault(change.key, []).append(change)
        if change.token is not None:
            self._tokens[change.token] = change

    def _remove(self, change: ChangeEntry) -> None:
        index = self._annotations if change.n is None else self._versions
        index[change.key].pop()
        if not index[change.key]:
            del index[change.key]
        if change.token is not None:
            del self._tokens[change.token]

    def get_end(self) -> LogEnd:
        with self._changed:
            last = self._entries[-1] if self._entries else None
            return LogEnd(last.seq, last.hash, last.at) if last else LogEnd()

    def get_state(self, key: str) -> KeyState:
        lock_changes = [change for change in self._annotations.get(key, ()) if change.kind in (LOCK, UNLOCK)]
        lock = lock_changes[-1] if lock_changes and lock_changes[-1].kind == LOCK else None
        return KeyState(len(self._versions.get(key, ())), lock)

    def get_last_alias_change(self, key: str, name: str) -> ChangeEntry | None:
        return find_last_alias_change(self._annotations.get(key, ()), name)

    def find_by_token(self, token: str) -> ChangeEntry | None:
        return self._tokens.get(token)

    def get_head(self, key: str, as_of: int | None = None) -> ChangeEntry | None:
        with self._changed:
            versions = self._versions.get(key, ())
            index = len(versions) if as_of is None else bisect_right(versions, as_of, key=lambda change: change.seq)
            return versions[index - 1] if index else None

    def get_value(self, key: str) -> tuple[str, int] | None:
        head = self.get_head(key)
        return None if head is None else (head.value or "null", head.n or 0)

    def get_version(self, key: str, version: int) -> ChangeEntry | None:
        with self._changed:
            versions = self._versions.get(key, ())
            return versions[version - 1] if 1 <= version <= len(versions) else None

    def list_history(self, key: str, limit: int) -> Sequence[ChangeEntry]:
        with self._changed:
            return list(self._versions.get(key, ())[-limit if limit > 0 else 0 :])

    def list_annotations(self, key: str, as_of: int | None = None) -> Sequence[ChangeEntry]:
        with self._changed:
            return [change for change in self._annotations.get(key, ()) if as_of is None or change.seq <= as_of]

    def list_keys(self, prefix: str) -> Sequence[str]:
        with self._changed:
            return sorted(key for key in self._versions if key.startswith(prefix))

    def list_heads(self, prefix: str, as_of: int) -> Sequence[ChangeEntry]:
        with self._changed:
            heads = (self.get_head(key, as_of) for key in self.list_keys(prefix))
            return [change for change in heads if change is not None]

    def list_entries(self, prefix: str, after: int, end: int | None, limit: int) -> Sequence[ChangeEntry]:
        with self._changed:
            matches: list[ChangeEntry] = []
            for index in range(max(after, 0), len(self._entries) if end is None else min(end, len(self._entries))):
                if self._entries[index].key.startswith(prefix):
                    matches.append(self._entries[index])
                    if len(matches) == limit:
                        break
            return matches

    def list_newest(self, prefix: str, after: int, limit: int) -> Sequence[ChangeEntry]:
        with self._changed:
            matches: list[ChangeEntry] = []
            for index in range(len(self._entries) - 1, max(after, 0) - 1, -1):
                if len(matches) == limit:
                    break
                if self._entries[index].key.startswith(prefix):
                    matches.append(self._entries[index])
            return matches[::-1]

    def get_seq_at(self, timestamp: str) -> int:
        with self._changed:
            return bisect_right(self._entries, timestamp, key=lambda change: change.at)

    def wait_for_change(self, after: int, timeout: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: len(self._entries) > after, timeout)

    def close(self) -> None:
        """Does nothing."""


ALL_ISLANDS = -1  # island of records about all islands


class MemoryJournal:
    """Records in a list."""

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
    """Blobs in memory."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    def save_blob(self, data: bytes) -> BlobRef:
        key = hashlib.sha256(data).hexdigest()
        self._contents[key] = data
        return BlobRef(key, len(data), data[:80].decode("utf-8", "replace"))

    def load_blob(self, ref: BlobRef) -> bytes:
        if ref.sha256 not in self._contents:
            raise errors.NotFound(f"Blob {ref.sha256} not found.")
        return self._contents[ref.sha256]


class MemoryInbox:
    """Commands in memory."""

    def __init__(self) -> None:
        self._commands: list[Command] = []
        self._lock = Lock()

    def post(self, kind: CommandKind, /, **data: JSON) -> int:
        """Adds a command and returns its number."""
        with self._lock:
            self._commands.append(Command(len(self._commands) + 1, kind, data))
            return len(self._commands)

    def read(self, after: int) -> Sequence[Command]:
        with self._lock:
            return self._commands[after:]


class MemoryVersions(LedgerVersions):
    """Versions in memory."""

    def __init__(self) -> None:
        super().__init__(MemoryChangeLog())
