"""Interface between the ledger, which defines changes, and the storage of changes."""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from atoll.store.versions.change import ALIAS, GENESIS, ChangeEntry


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
