"""Where the entries of a ledger stand: the seam between what a change means and how it is kept."""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from atoll.store.entry import ALIAS, GENESIS, Entry


class Tail(NamedTuple):
    """The end of a book."""

    seq: int = 0
    hash: str = GENESIS
    at: str = ""


class State(NamedTuple):
    """How a key stands: its newest version, and who locked it."""

    n: int = 0
    lock: Entry | None = None


class Pen(Protocol):
    """Writes a book, alone, until its block ends; sees what it has put down itself."""

    def tail(self) -> Tail: ...

    def state(self, key: str) -> State: ...

    def version(self, key: str, n: int) -> Entry | None: ...

    def alias(self, key: str, name: str) -> Entry | None:
        """Returns the last move of an alias."""

    def by_token(self, token: str) -> Entry | None: ...

    def put(self, entry: Entry) -> None:
        """Adds an entry; it is there for others when the block ends without an exception, or never."""


class Book(Protocol):
    """Entries in their order. Threads and, where it is a file, processes may share it; readers wait for nobody."""

    def writing(self) -> AbstractContextManager[Pen]:
        """Lends the pen; whatever raises inside undoes all that was put down."""

    def head(self, key: str, upto: int | None = None) -> Entry | None:
        """Returns the newest version of a key, or that which was it once `upto` entries stood."""

    def value(self, key: str) -> tuple[str, int] | None:
        """Returns the JSON text and the number of the newest version: the head, as fast as can be."""

    def version(self, key: str, n: int) -> Entry | None: ...

    def history(self, key: str, limit: int) -> Sequence[Entry]:
        """Returns the newest `limit` versions of a key, oldest first; all, if it is not above 0."""

    def beside(self, key: str, upto: int | None = None) -> Sequence[Entry]:
        """Returns what concerns a key and made no version (locks, aliases, notes), oldest first."""

    def keys(self, prefix: str) -> Sequence[str]:
        """Returns the keys that have a version, sorted."""

    def heads(self, prefix: str, upto: int) -> Sequence[Entry]:
        """Returns the newest versions of all keys with a prefix once `upto` entries stood, by key."""

    def entries(self, prefix: str, after: int, upto: int | None, limit: int) -> Sequence[Entry]:
        """Returns the first `limit` entries of keys with a prefix behind `after` entries of the whole book."""

    def newest(self, prefix: str, after: int, limit: int) -> Sequence[Entry]:
        """Returns the last `limit` entries of keys with a prefix behind `after`, in their order."""

    def tail(self) -> Tail: ...

    def seq_at(self, at: str) -> int:
        """Returns how many entries stood at a moment."""

    def wait(self, after: int, timeout: float) -> bool:
        """Waits until there is an entry behind `after`, of whoever; False when so many seconds passed without."""

    def close(self) -> None: ...


def last_move(beside: Sequence[Entry], name: str) -> Entry | None:
    """Returns the last move of an alias among what stands beside a key."""
    named = json.dumps(name)
    return next((each for each in reversed(beside) if each.kind == ALIAS and each.value == named), None)
