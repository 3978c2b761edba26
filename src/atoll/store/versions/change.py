"""Changes of versioned values: a requested change, a logged change with its hash, and the interface of the log."""

import hashlib
import json
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from json.encoder import encode_basestring as quoted  # escapes as RFC 8785 does
from typing import NamedTuple, Protocol

from atoll import errors
from atoll.store.versions.errors import InvalidKey, ReasonRequired

GENESIS = "0" * 64  # hash before the first change
SET, ROLLBACK, LOCK, UNLOCK, ALIAS = "set", "rollback", "lock", "unlock", "alias"
KINDS = (SET, ROLLBACK, LOCK, UNLOCK, ALIAS)
MAX_KEY_LENGTH = 512  # characters
_INVALID_IN_KEY = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_KIND = re.compile(r"[a-z][a-z0-9_-]{0,39}")


class ChangeEntry(NamedTuple):
    """Change of a key.

    Attributes:
        seq: Number of the change in the store, from 1.
        kind: `set`, `rollback`, `lock`, `unlock`, `alias`, or the kind of a note, e.g. `approve`.
        n: Version that it created, or None.
        target: Version that a rollback copied, a lock found, or an alias points at.
        value: JSON text of the value; of an alias, its name.
        at: Time in UTC, as sortable text.
        token: A change with a known token is ignored.
    """

    seq: int
    key: str
    kind: str
    n: int | None
    target: int | None
    value: str | None
    reason: str
    author: str
    at: str
    token: str | None
    hash: str = ""

    def to_canonical_json(self) -> str:
        seq, key, kind, n, target, value, reason, author, at, token, _ = self
        return (
            f'{{"at":{quoted(at)},"author":{quoted(author)},"key":{quoted(key)},"kind":{quoted(kind)},'
            f'"n":{"null" if n is None else n},"reason":{quoted(reason)},"seq":{seq},'
            f'"target":{"null" if target is None else target},'
            f'"token":{"null" if token is None else quoted(token)},'
            f'"value":{"null" if value is None else quoted(value)}}}'
        )

    def with_hash(self, previous_hash: str) -> "ChangeEntry":
        """Returns the change with its hash; `previous_hash` is that of the previous change."""
        return ChangeEntry(*self[:-1], compute_hash(previous_hash, self.to_canonical_json()))


def compute_hash(previous_hash: str, canonical_json: str) -> str:
    return hashlib.sha256(bytes.fromhex(previous_hash) + canonical_json.encode("utf-8", "surrogatepass")).hexdigest()


def check_reason(reason: str) -> None:
    """Raises `ReasonRequired` for an empty reason."""
    if not reason.strip():
        raise ReasonRequired("The reason of a change is empty. Pass a reason.")


def check_author(author: str) -> None:
    if not author.strip():
        raise errors.SetupError("The author of a change is empty. Pass an author.")


def check_texts(*texts: str) -> None:
    """Raises `SetupError` for texts with a zero byte or a surrogate, which cannot be stored."""
    for text in texts:
        if (not text.isascii() or "\0" in text) and (match := _UNSTORABLE.search(text)):
            raise errors.SetupError(f"{text!r:.80} contains {match[0]!r}, which cannot be stored. Remove it.")


def check_key(key: str) -> None:
    """Raises `InvalidKey` for a key that is empty, too long, or contains control characters or surrogates."""
    if not key.strip():
        raise InvalidKey("The key of a change is empty. Pass a key.")
    if len(key) > MAX_KEY_LENGTH:
        raise InvalidKey(f"A key has {len(key)} characters; the maximum is {MAX_KEY_LENGTH}.")
    if (not key.isascii() or not key.isprintable()) and (match := _INVALID_IN_KEY.search(key)):
        raise InvalidKey(f"{key!r:.80} contains {match[0]!r}, which cannot be stored. Remove it.")


def check_kind(kind: str) -> None:
    """Raises `SetupError` for a kind of note that is one of `KINDS` or not a plain word."""
    if kind in KINDS or not _KIND.fullmatch(kind):
        raise errors.SetupError(f"{kind!r} is not a kind of note. Use a plain word other than {', '.join(KINDS)}.")


_ALIAS_NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """Requested change.

    Attributes:
        kind: As in `ChangeEntry`.
        value: JSON text of the new value or of a note.
        name: Name of an alias.
        target: Version to roll back to, or target of an alias; None removes the alias.
        expected: Version that the change is based on; 0: none yet; None: any.
        timestamp: Time of an imported change; never earlier than the previous change.
    """

    kind: str
    key: str
    reason: str
    author: str
    value: str | None = None
    name: str = ""
    target: int | None = None
    expected: int | None = None
    token: str | None = None
    timestamp: str | None = None

    def check(self) -> None:
        """Checks the fields before anything is locked or written.

        Raises:
            ReasonRequired: The reason is empty.
            InvalidKey: The key is invalid.
            SetupError: The author, another text or the alias is invalid.
        """
        check_reason(self.reason)
        check_key(self.key)
        check_author(self.author)
        check_texts(self.reason, self.author, self.token or "")
        if self.kind == ALIAS and not _ALIAS_NAME.fullmatch(self.name):
            raise errors.SetupError(f"{self.name!r} is not an alias. Use a word that begins with a letter.")


class LogEnd(NamedTuple):
    """Last change of a log."""

    seq: int = 0
    hash: str = GENESIS
    timestamp: str = ""


class KeyState(NamedTuple):
    """State of a key: its newest version, and the change that locked it."""

    version: int = 0
    lock: ChangeEntry | None = None


class ChangeWriter(Protocol):
    """Exclusive writer of a log; sees its own changes."""

    def get_end(self) -> LogEnd: ...

    def get_state(self, key: str) -> KeyState: ...

    def get_version(self, key: str, version: int) -> ChangeEntry | None: ...

    def get_last_alias_change(self, key: str, name: str) -> ChangeEntry | None:
        """Returns the last change of an alias."""

    def find_by_token(self, token: str) -> ChangeEntry | None: ...

    def append(self, change: ChangeEntry) -> None:
        """Adds a change; it is committed when the block ends without an exception."""


class ChangeLog(Protocol):
    """Ordered changes; thread-safe, and shared between processes if stored. Readers never wait."""

    def begin_write(self) -> AbstractContextManager[ChangeWriter]:
        """Yields the writer; an exception in the block undoes its changes."""

    def get_head(self, key: str, as_of: int | None = None) -> ChangeEntry | None:
        """Returns the newest version of a key, now or after the first `as_of` changes."""

    def get_value(self, key: str) -> tuple[str, int] | None:
        """Returns value and number of the newest version; faster than `get_head`."""

    def get_version(self, key: str, version: int) -> ChangeEntry | None: ...

    def list_history(self, key: str, limit: int) -> Sequence[ChangeEntry]:
        """Returns the newest `limit` versions of a key, oldest first; 0: all."""

    def list_annotations(self, key: str, as_of: int | None = None) -> Sequence[ChangeEntry]:
        """Returns the changes of a key that created no version (locks, aliases, notes), oldest first."""

    def list_keys(self, prefix: str) -> Sequence[str]:
        """Returns the keys that have a version, sorted."""

    def list_heads(self, prefix: str, as_of: int) -> Sequence[ChangeEntry]:
        """Returns the newest versions of all keys with a prefix after the first `as_of` changes, by key."""

    def list_entries(self, prefix: str, after: int, end: int | None, limit: int) -> Sequence[ChangeEntry]:
        """Returns the first `limit` changes of keys with a prefix after change `after`."""

    def list_newest(self, prefix: str, after: int, limit: int) -> Sequence[ChangeEntry]:
        """Returns the last `limit` changes of keys with a prefix after change `after`, in order."""

    def get_end(self) -> LogEnd: ...

    def get_seq_at(self, timestamp: str) -> int:
        """Returns the number of changes at a time."""

    def wait_for_change(self, after: int, timeout: float) -> bool:
        """Waits for a change after `after`; returns False after `timeout` seconds."""

    def close(self) -> None: ...


def find_last_alias_change(annotations: Sequence[ChangeEntry], name: str) -> ChangeEntry | None:
    """Returns the last change of an alias among the annotations of a key."""
    encoded_name = json.dumps(name)
    return next((entry for entry in reversed(annotations) if entry.kind == ALIAS and entry.value == encoded_name), None)
