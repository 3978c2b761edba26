"""Where the entries of a ledger stand: the seam between what a change means and how it is kept."""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from atoll.store.versions.change import ALIAS, GENESIS, ChangeEntry


class LogEnd(NamedTuple):
    """The end of a book."""

    seq: int = 0
    hash: str = GENESIS
    timestamp: str = ""


class KeyState(NamedTuple):
    """How a key stands: its newest version, and who locked it."""

    version: int = 0
    lock: ChangeEntry | None = None


class ChangeWriter(Protocol):
    """Writes a book, alone, until its block ends; sees what it has put down itself."""

    def get_end(self) -> LogEnd: ...

    def get_state(self, key: str) -> KeyState: ...

    def get_version(self, key: str, version: int) -> ChangeEntry | None: ...

    def get_last_alias_change(self, key: str, name: str) -> ChangeEntry | None:
        """Returns the last move of an alias."""

    def find_by_token(self, token: str) -> ChangeEntry | None: ...

    def append(self, change: ChangeEntry) -> None:
        """Adds an entry; it is there for others when the block ends without an exception, or never."""


class ChangeLog(Protocol):
    """Entries in their order. Threads and, where it is a file, processes may share it; readers wait for nobody."""

    def begin_write(self) -> AbstractContextManager[ChangeWriter]:
        """Lends the pen; whatever raises inside undoes all that was put down."""

    def get_head(self, key: str, as_of: int | None = None) -> ChangeEntry | None:
        """Returns the newest version of a key, or that which was it once `upto` entries stood."""

    def get_value(self, key: str) -> tuple[str, int] | None:
        """Returns the JSON text and the number of the newest version: the head, as fast as can be."""

    def get_version(self, key: str, version: int) -> ChangeEntry | None: ...

    def list_history(self, key: str, limit: int) -> Sequence[ChangeEntry]:
        """Returns the newest `limit` versions of a key, oldest first; all, if it is not above 0."""

    def list_annotations(self, key: str, as_of: int | None = None) -> Sequence[ChangeEntry]:
        """Returns what concerns a key and made no version (locks, aliases, notes), oldest first."""

    def list_keys(self, prefix: str) -> Sequence[str]:
        """Returns the keys that have a version, sorted."""

    def list_heads(self, prefix: str, as_of: int) -> Sequence[ChangeEntry]:
        """Returns the newest versions of all keys with a prefix once `upto` entries stood, by key."""

    def list_entries(self, prefix: str, after: int, end: int | None, limit: int) -> Sequence[ChangeEntry]:
        """Returns the first `limit` entries of keys with a prefix behind `after` entries of the whole book."""

    def list_newest(self, prefix: str, after: int, limit: int) -> Sequence[ChangeEntry]:
        """Returns the last `limit` entries of keys with a prefix behind `after`, in their order."""

    def get_end(self) -> LogEnd: ...

    def get_seq_at(self, timestamp: str) -> int:
        """Returns how many entries stood at a moment."""

    def wait_for_change(self, after: int, timeout: float) -> bool:
        """Waits until there is an entry behind `after`, of whoever; False when so many seconds passed without."""

    def close(self) -> None: ...


def find_last_alias_change(annotations: Sequence[ChangeEntry], name: str) -> ChangeEntry | None:
    """Returns the last move of an alias among what stands beside a key."""
    encoded_name = json.dumps(name)
    return next((entry for entry in reversed(annotations) if entry.kind == ALIAS and entry.value == encoded_name), None)
