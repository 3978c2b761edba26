"""Values with a history, as texts; parameters are the same entries, as JSON."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from atoll import errors, versions
from atoll.store import entry as entries
from atoll.store import ledger
from atoll.store.book import Book
from atoll.store.changes import StoredBook
from atoll.store.database import Database
from atoll.store.entry import Entry


class LedgerVersions:
    """`Versions` on any book. A value that somebody set as a parameter and that is no text comes as its JSON."""

    def __init__(self, book: Book, clock: Callable[[], datetime] = ledger.now) -> None:
        self.ledger = ledger.Ledger(book, clock)

    def get(self, key: str, n: int | None = None) -> versions.Version:
        return _version(self.ledger.get(key, n))

    def set(
        self, key: str, value: str, reason: str, author: str, *, expected: int | None = None, token: str | None = None
    ) -> versions.Version:
        text = json.dumps(value)
        return self._made(entries.SET, key, reason, author, value=text, expected=expected, token=token)

    def list(self, prefix: str = "") -> Sequence[str]:
        return self.ledger.book.keys(prefix)

    def history(self, key: str) -> Sequence[versions.Version]:
        return tuple(map(_version, self.ledger.book.history(key, 0)))

    def rollback(self, key: str, n: int, reason: str, author: str) -> versions.Version:
        return self._made(entries.ROLLBACK, key, reason, author, target=n)

    def lock(self, key: str, reason: str, author: str) -> None:
        self._change(entries.LOCK, key, reason, author)

    def unlock(self, key: str, reason: str, author: str) -> None:
        self._change(entries.UNLOCK, key, reason, author)

    def watch(
        self, prefix: str = "", *, after: int | None = None, timeout: float | None = None
    ) -> Iterator[versions.Version]:
        """Yields new versions of any process as they are made, within about 10 ms.

        Args:
            after: How many changes of the whole store, of whatever key, were seen already: 0 yields all there ever
                was. None means those there are at the moment of the call.
            timeout: Ends when so many seconds pass without a change of any key.
        """
        began = self.ledger.book.tail().seq if after is None else after
        return (_version(each) for each in self.ledger.follow(prefix, began, timeout) if each.n is not None)

    def _change(self, kind: str, key: str, reason: str, author: str, **rest: Any) -> Entry | None:
        versions.check(key, reason, author)
        asked = ledger.Operation(kind=kind, key=key, reason=reason, author=author, **rest)
        return self.ledger.change(asked)[0]

    def _made(self, kind: str, key: str, reason: str, author: str, **rest: Any) -> versions.Version:
        made = self._change(kind, key, reason, author, **rest)
        assert made is not None, "a version is always made"
        return _version(made)


class StoredVersions(LedgerVersions):
    """Versions in the database, shared by all processes that open the file."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = ledger.now) -> None:
        super().__init__(StoredBook(database), clock)


def _version(found: Entry) -> versions.Version:
    try:
        value = json.loads(found.value or "null")
    except ValueError as error:
        raise errors.StoreFailed(f"Change {found.seq} is damaged ({error}): use a copy that is whole.") from error
    text = value if isinstance(value, str) else found.value or "null"
    return versions.Version(found.key, found.n or 0, text, found.reason, found.author)
