"""Versions as texts; parameters use the same change log with JSON values."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from atoll import errors, versions
from atoll.store.database.database import Database
from atoll.store.versions import change as entries
from atoll.store.versions import ledger
from atoll.store.versions.change import ChangeEntry
from atoll.store.versions.change_log import ChangeLog
from atoll.store.versions.sql_change_log import SQLChangeLog


class LedgerVersions:
    """`Versions` on any change log. A parameter value other than a string is returned as JSON text."""

    def __init__(self, change_log: ChangeLog, clock: Callable[[], datetime] = ledger.now) -> None:
        self.ledger = ledger.VersionLedger(change_log, clock)

    def get(self, key: str, n: int | None = None) -> versions.Version:
        return _to_version(self.ledger.get(key, n))

    def set(
        self, key: str, value: str, reason: str, author: str, *, expected: int | None = None, token: str | None = None
    ) -> versions.Version:
        text = json.dumps(value)
        return self._create_version(entries.SET, key, reason, author, value=text, expected=expected, token=token)

    def list(self, prefix: str = "") -> Sequence[str]:
        return self.ledger.change_log.list_keys(prefix)

    def history(self, key: str) -> Sequence[versions.Version]:
        return tuple(map(_to_version, self.ledger.change_log.list_history(key, 0)))

    def rollback(self, key: str, n: int, reason: str, author: str) -> versions.Version:
        return self._create_version(entries.ROLLBACK, key, reason, author, target=n)

    def lock(self, key: str, reason: str, author: str) -> None:
        self._apply(entries.LOCK, key, reason, author)

    def unlock(self, key: str, reason: str, author: str) -> None:
        self._apply(entries.UNLOCK, key, reason, author)

    def watch(
        self, prefix: str = "", *, after: int | None = None, timeout: float | None = None
    ) -> Iterator[versions.Version]:
        """Yields new versions of any process, within about 10 ms.

        Args:
            prefix: Prefix of the keys.
            after: Last known change of the store, of any key; 0 yields all. None: only changes after this call.
            timeout: Ends after this many seconds without a change of any key.
        """
        start = self.ledger.change_log.get_end().seq if after is None else after
        return (_to_version(entry) for entry in self.ledger.follow(prefix, start, timeout) if entry.n is not None)

    def _apply(self, kind: str, key: str, reason: str, author: str, **fields: Any) -> ChangeEntry | None:
        versions.validate_change(key, reason, author)
        request = ledger.ChangeRequest(kind=kind, key=key, reason=reason, author=author, **fields)
        return self.ledger.apply(request)[0]

    def _create_version(self, kind: str, key: str, reason: str, author: str, **fields: Any) -> versions.Version:
        entry = self._apply(kind, key, reason, author, **fields)
        assert entry is not None, "a version is always created"
        return _to_version(entry)


class StoredVersions(LedgerVersions):
    """Versions in the database, shared by processes."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = ledger.now) -> None:
        super().__init__(SQLChangeLog(database), clock)


def _to_version(entry: ChangeEntry) -> versions.Version:
    try:
        value = json.loads(entry.value or "null")
    except ValueError as error:
        raise errors.StoreFailed(f"Change {entry.seq} is damaged: {error}. Restore a backup.") from error
    text = value if isinstance(value, str) else entry.value or "null"
    return versions.Version(entry.key, entry.n or 0, text, entry.reason, entry.author)
