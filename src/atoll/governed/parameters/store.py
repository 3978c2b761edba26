"""The contract of every store of parameters, and what it speaks of."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from atoll.store.versions import audit, change

BUFFER = 16  # changes that a watch lets wait


class Value(NamedTuple):
    """What a key holds: `value, version = store.get(key)`."""

    value: Any
    version: int


@dataclass(frozen=True, slots=True)
class Change:
    """One line of the audit log: who changed what, when and why.

    Attributes:
        kind: `set`, `rollback`, `lock`, `unlock`, `alias`, or the kind of a note.
        version: The version that it made; of a lock, that which it found; of an alias, that which it points at, 0 for
            nowhere; of a note 0.
        value: JSON; None of a lock; of an alias, its name.
        seq: Counts all changes of the store from 1: where a watch goes on.
        target: What a rollback copied.
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
    """Changes that a slow watcher did not get; `changes(after=first - 1, upto=last)` reads them."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All keys as they stood once `seq` changes were made."""

    seq: int
    values: Mapping[str, Value]


class Transaction(Protocol):
    """Collects changes; the end of its block makes all of them or, if one is refused, none.

    Nothing is checked or locked before that; `expected_version` protects what was read meanwhile.
    """

    def set(
        self, key: str, value: Any, reason: str = "", *, expected_version: int | None = None, token: str | None = None
    ) -> None:
        """Asks for a new version; an empty reason takes that of the transaction."""

    def rollback(self, key: str, to_version: int, reason: str = "") -> None: ...

    def lock(self, key: str, reason: str = "") -> None: ...

    def unlock(self, key: str, reason: str = "") -> None: ...

    def alias(
        self, key: str, name: str, version: int | None, reason: str = "", *, expected_version: int | None = None
    ) -> None: ...

    def note(self, key: str, kind: str, value: Any, reason: str = "") -> None:
        """Asks for a line of the log, so that an approval and what it lets in stand there together or not at all."""

    @property
    def changes(self) -> Sequence[Change]:
        """What was made, once the block has ended."""


class ParameterStore(Protocol):
    """Values with a history; every change has a reason and an author, and none is ever lost.

    Checks come in this order: the reason, that the key is there, its lock, its version. An author who is not named is
    the one of `acting`. Threads may share a store.
    """

    def get(self, key: str, *, as_of: int | datetime | None = None) -> Value:
        """Returns the newest value of a key and its version.

        Args:
            key: A key, else KEY@N for a version, else KEY@ALIAS for the version that an alias points at.
            as_of: How it stood once so many changes of the store were made, or at that moment.

        Raises:
            ParameterNotFound: There is no such key.
            VersionNotFound: It has no such version or alias, or had none then.
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
        """Makes a new version and returns its number, 1 for the first.

        Args:
            expected_version: The version that the change is based on; 0 means that there is none yet.
            token: The same token again changes nothing and returns the version that it made.

        Raises:
            ReasonRequired: The reason is empty.
            InvalidKey: The key is empty, too long or no text.
            InvalidValue: The value is no JSON, or not what the key allows.
            ParameterLocked: The key is locked.
            VersionConflict: The newest version is another one than expected.
        """

    def list(self, prefix: str = "") -> Sequence[str]:
        """Returns the keys that begin with a prefix, sorted."""

    def history(self, key: str, limit: int = 0) -> Sequence[Change]:
        """Returns the newest `limit` versions of a key, oldest first; all, if it is not above 0.

        Raises:
            ParameterNotFound: There is no such key.
        """

    def rollback(self, key: str, to_version: int, reason: str, *, author: str | None = None) -> int:
        """Makes an old value the newest again, as a new version; on a locked key too, which stays locked.

        Raises:
            ReasonRequired: The reason is empty.
            ParameterNotFound: There is no such key.
            VersionNotFound: It has no such version.
        """

    def lock(self, key: str, reason: str, *, author: str | None = None) -> None:
        """Refuses changes but for rollbacks until `unlock`; a second lock takes the place of the first.

        Raises:
            ReasonRequired: The reason is empty.
            ParameterNotFound: There is no such key.
        """

    def unlock(self, key: str, reason: str, *, author: str | None = None) -> None:
        """Lets changes in again; what is not locked stays so, and nothing is written.

        Raises:
            ReasonRequired: The reason is empty.
            ParameterNotFound: There is no such key.
        """

    def get_lock(self, key: str) -> Change | None:
        """Returns the lock that holds a key, or None."""

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
        """Lets KEY@NAME stand for a version; None takes the alias away. Of a locked key it only moves back.

        Args:
            expected_version: Where it must point before; 0 means nowhere.

        Raises:
            ReasonRequired: The reason is empty.
            ParameterNotFound: There is no such key.
            ParameterLocked: The key is locked, and the alias would not move back.
            VersionNotFound: It has no such version.
            VersionConflict: The alias points elsewhere than expected.
        """

    def aliases(self, key: str) -> Mapping[str, int]:
        """Returns where the aliases of a key point."""

    def note(self, key: str, kind: str, value: Any, reason: str, *, author: str | None = None) -> Change:
        """Writes into the audit log what makes no version: an approval, a rejection.

        Args:
            key: What it is about; there need be no such parameter.
            kind: A plain word, none of the kinds of `Change`.

        Raises:
            ReasonRequired: The reason is empty.
        """

    def transaction(self, reason: str = "", *, author: str | None = None) -> AbstractContextManager[Transaction]:
        """Collects changes of several keys and makes them together, or none."""

    def watch(
        self, prefix: str = "", *, after: int | None = None, timeout: float | None = None, buffer: int | None = BUFFER
    ) -> Iterator[Change | Gap]:
        """Yields changes of keys with a prefix as they are made, by any process, from now on or `after` a `seq`.

        No writer ever waits for a watcher. What was made before the watch began is read whole; of what comes later at
        most `buffer` changes wait, the newest, and a `Gap` tells of those before them (None: all wait).
        Ends when `timeout` seconds pass without a change.
        """

    def changes(self, prefix: str = "", *, after: int = 0, end: int | None = None) -> Iterator[Change]:
        """Yields the audit log: changes of keys with a prefix, in their order."""

    def snapshot(self, prefix: str = "", *, as_of: int | datetime | None = None) -> Snapshot:
        """Returns all values at one moment, now or then."""

    def verify(self, anchors: Sequence[audit.Anchor] = ()) -> audit.AuditReport:
        """Checks the audit log from its first change to its last.

        Raises:
            ChainBroken: A change was edited, left out or moved, or an anchor is not met.
        """

    def anchor(self, key: bytes | None = None) -> audit.Anchor:
        """Returns the end of the audit log, signed if there is a key; to be kept where nobody can change it."""
