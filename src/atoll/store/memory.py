"""Journal, inbox, bodies and versions inside one process: for tests, and for runs that nobody wants back."""

import hashlib
from collections.abc import Iterator, Sequence
from threading import Condition, Lock

from atoll import errors
from atoll.candidate import JSON
from atoll.control import Command, Kind
from atoll.evaluation import BlobRef
from atoll.journal import Record
from atoll.versions import Version, check

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


class MemoryVersions:
    """Versions inside one process."""

    def __init__(self) -> None:
        self._changes: list[Version] = []
        self._by_key: dict[str, list[Version]] = {}
        self._by_token: dict[str, Version] = {}
        self._locks: dict[str, tuple[str, str]] = {}
        self._changed = Condition()

    def get(self, key: str, n: int | None = None) -> Version:
        with self._changed:
            versions = self._by_key.get(key, [])
            if not versions or (n is not None and not 1 <= n <= len(versions)):
                raise errors.NotFound(f"There is no version {key}{'' if n is None else f'@{n}'}.")
            return versions[-1 if n is None else n - 1]

    def set(
        self, key: str, value: str, reason: str, author: str, *, expected: int | None = None, token: str | None = None
    ) -> Version:
        check(key, reason, author)
        with self._changed:
            if token is not None and token in self._by_token:
                return self._by_token[token]
            if key in self._locks:
                by, why = self._locks[key]
                raise errors.Conflict(f"{key} is locked by {by}: {why}")
            count = len(self._by_key.get(key, []))
            if expected is not None and expected != count:
                raise errors.Conflict(f"{key} is at version {count}, not {expected}.")
            return self._append(key, value, reason, author, token)

    def list(self, prefix: str = "") -> Sequence[str]:
        with self._changed:
            return sorted(key for key in self._by_key if key.startswith(prefix))

    def history(self, key: str) -> Sequence[Version]:
        with self._changed:
            return tuple(self._by_key.get(key, []))

    def rollback(self, key: str, n: int, reason: str, author: str) -> Version:
        check(key, reason, author)
        with self._changed:
            return self._append(key, self.get(key, n).value, reason, author, None)

    def lock(self, key: str, reason: str, author: str) -> None:
        check(key, reason, author)
        with self._changed:
            self._locks[key] = (author, reason)

    def unlock(self, key: str, reason: str, author: str) -> None:
        check(key, reason, author)
        with self._changed:
            self._locks.pop(key, None)

    def watch(self, prefix: str = "", *, after: int | None = None, timeout: float | None = None) -> Iterator[Version]:
        with self._changed:
            return self._follow(prefix, len(self._changes) if after is None else after, timeout)

    def _follow(self, prefix: str, after: int, timeout: float | None) -> Iterator[Version]:
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: len(self._changes) > after, timeout):  # noqa: B023
                    return
                fresh = self._changes[after:]
            after += len(fresh)
            yield from (version for version in fresh if version.key.startswith(prefix))

    def _append(self, key: str, value: str, reason: str, author: str, token: str | None) -> Version:
        versions = self._by_key.setdefault(key, [])
        version = Version(key, len(versions) + 1, value, reason, author)
        versions.append(version)
        self._changes.append(version)
        if token is not None:
            self._by_token[token] = version
        self._changed.notify_all()
        return version
