"""ParameterStore: the interface of every parameter store, and its data types."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from atoll.store.versions import audit, change

BUFFER = 16  # changes that a watch buffers


class Value(NamedTuple):
    """Value and version of a key: `value, version = store.get(key)`."""

    value: Any
    version: int


@dataclass(frozen=True, slots=True)
class Change:
    """One line of the audit log: who changed what, when and why.

    Attributes:
        kind: `set`, `rollback`, `lock`, `unlock`, `alias`, or the kind of a note.
        version: New version; of a lock the current version; of an alias its target, 0 if removed; of a note 0.
        value: JSON; None for a lock; the name of an alias.
        seq: Number of the change in the store, from 1. A watch can continue after it.
        target: Version that a rollback copied.
    """

    key: str
    kind: str
    version: int
    value: Any
    reason: str
    author: str
    timestamp: datetime
    seq: int
    target: int | None = None
    hash: str = ""

    @property
    def is_lock(self) -> bool:
        return self.kind in (change.LOCK, change.UNLOCK)


class Gap(NamedTuple):
    """Changes that a slow watcher missed; `changes(after=first - 1, end=last)` reads them."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All values after the first `seq` changes."""

    seq: int
    values: Mapping[str, Value]


class Transaction(Protocol):
    """Collects changes. The end of the block makes all of them, or none if one fails.

    Nothing is checked or locked before that; `expected_version` detects changes in between.
    """

    def set(
        self, key: str, value: Any, reason: str = "", *, expected_version: int | None = None, token: str | None = None
    ) -> None:
        """Adds a new version; an empty reason means the reason of the transaction."""

    def rollback(self, key: str, to_version: int, reason: str = "") -> None: ...

    def lock(self, key: str, reason: str = "") -> None: ...

    def unlock(self, key: str, reason: str = "") -> None: ...

    def alias(
        self, key: str, name: str, version: int | None, reason: str = "", *, expected_version: int | None = None
    ) -> None: ...

    def note(self, key: str, kind: str, value: Any, reason: str = "") -> None:
        """Adds a note, so that an approval and its change are logged together or not at all."""

    @property
    def changes(self) -> Sequence[Change]:
        """Changes made, after the end of the block."""


class ParameterStore(Protocol):
    """Versioned values. Every change has a reason and an author; no version is ever lost.

    Checks run in this order: reason, key, lock, version. The default author comes from `author_context`. Threads may
    share a store.
    """

    def get(self, key: str, *, as_of: int | datetime | None = None) -> Value:
        """Returns a value and its version.

        Args:
            key: KEY for the newest version, KEY@N for version N, or KEY@ALIAS for the version of an alias.
            as_of: Number of changes after which, or time at which to read.

        Raises:
            ParameterNotFound: The key does not exist.
            VersionNotFound: The version or alias does not exist, or did not exist then.
        """

    def set(
        self,
        key: str,
        value: Any,
        reason: str,
        *,
        author: str | None = None,
        expected_version: int | None = None,
        token: str | None = None,
    ) -> int:
        """Creates a new version and returns its number, starting at 1.

        Args:
            expected_version: Version on which the change is based; 0: the key must not exist.
            token: A second call with the same token changes nothing and returns the version of the first.

        Raises:
            ReasonRequired: The reason is empty.
            InvalidKey: The key is empty, too long or not a string.
            InvalidValue: The value is not JSON or breaks a rule.
            ParameterLocked: The key is locked.
            VersionConflict: The newest version differs from `expected_version`.
        """

    def list(self, prefix: str = "") -> Sequence[str]:
        """Returns the keys with a prefix, sorted."""

    def history(self, key: str, limit: int = 0) -> Sequence[Change]:
        """Returns the newest `limit` versions of a key, oldest first; 0: all.

        Raises:
            ParameterNotFound: The key does not exist.
        """

    def rollback(self, key: str, to_version: int, reason: str, *, author: str | None = None) -> int:
        """Restores an old value as a new version. Works on locked keys, which stay locked.

        Raises:
            ReasonRequired: The reason is empty.
            ParameterNotFound: The key does not exist.
            VersionNotFound: The version does not exist.
        """

    def lock(self, key: str, reason: str, *, author: str | None = None) -> None:
        """Blocks changes except rollbacks until `unlock`. A second lock replaces the first.

        Raises:
            ReasonRequired: The reason is empty.
            ParameterNotFound: The key does not exist.
        """

    def unlock(self, key: str, reason: str, *, author: str | None = None) -> None:
        """Allows changes again. Does nothing if the key is not locked.

        Raises:
            ReasonRequired: The reason is empty.
            ParameterNotFound: The key does not exist.
        """

    def get_lock(self, key: str) -> Change | None:
        """Returns the lock of a key, or None."""

    def alias(
        self,
        key: str,
        name: str,
        version: int | None,
        reason: str,
        *,
        author: str | None = None,
        expected_version: int | None = None,
    ) -> None:
        """Points KEY@NAME at a version; None removes the alias. On a locked key it can only move to an older version.

        Args:
            expected_version: Version at which it must point before; 0: none.

        Raises:
            ReasonRequired: The reason is empty.
            ParameterNotFound: The key does not exist.
            ParameterLocked: The key is locked, and the alias would not move back.
            VersionNotFound: The version does not exist.
            VersionConflict: The alias points at another version.
        """

    def aliases(self, key: str) -> Mapping[str, int]:
        """Returns the versions of all aliases of a key."""

    def note(self, key: str, kind: str, value: Any, reason: str, *, author: str | None = None) -> Change:
        """Writes a note, such as an approval, into the audit log. It creates no version.

        Args:
            key: Subject of the note; need not exist.
            kind: Any word that is not a kind of `Change`.

        Raises:
            ReasonRequired: The reason is empty.
        """

    def transaction(self, reason: str = "", *, author: str | None = None) -> AbstractContextManager[Transaction]:
        """Collects changes of several keys and makes all of them, or none."""

    def watch(
        self, prefix: str = "", *, after: int | None = None, timeout: float | None = None, buffer: int | None = BUFFER
    ) -> Iterator[Change | Gap]:
        """Yields changes of keys with a prefix as any process makes them, from now on or `after` a `seq`.

        Writers never wait for a watcher. Changes before the start of the watch are read completely. Of later ones the
        newest `buffer` are kept, and a `Gap` stands for the older ones (None: all are kept).
        Ends after `timeout` seconds without a change.
        """

    def changes(self, prefix: str = "", *, after: int = 0, end: int | None = None) -> Iterator[Change]:
        """Yields the audit log: changes of keys with a prefix, in order."""

    def snapshot(self, prefix: str = "", *, as_of: int | datetime | None = None) -> Snapshot:
        """Returns all values at one time."""

    def verify(self, anchors: Sequence[audit.Anchor] = ()) -> audit.AuditReport:
        """Checks the hash chain of the audit log.

        Raises:
            ChainBroken: A change was edited, removed or moved, or an anchor does not match.
        """

    def anchor(self, key: bytes | None = None) -> audit.Anchor:
        """Returns a hash of the last change, signed if a key is given. Keep it outside the store."""
