"""Values with a history, shared by all processes that open the file."""

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, func, insert, select

from atoll import errors, versions
from atoll.store import schema
from atoll.store.blobs import Blobs, keep
from atoll.store.database import Database
from atoll.store.packing import Packed, encode, pack, unpack

POLL_SECONDS = 0.05  # between looks for changes of other processes
CHUNK = 256

_rows = schema.versions.c
_locks = schema.locks.c
_columns = (_rows.change, _rows.key, _rows.n, _rows.data, _rows.links)


class StoredVersions:
    """Versions in the database; changes of all keys are counted from 1 without gaps."""

    def __init__(self, database: Database) -> None:
        self._database, self._blobs = database, Blobs(database)

    def get(self, key: str, n: int | None = None) -> versions.Version:
        query = select(*_columns).where(_rows.key == key).order_by(_rows.n.desc()).limit(1)
        with self._database.reading() as connection:
            found = connection.execute(query if n is None else query.where(_rows.n == n)).one_or_none()
        if found is None:
            raise errors.NotFound(f"There is no version {key}{'' if n is None else f'@{n}'}.")
        return self._version(found)

    def set(
        self, key: str, value: str, reason: str, author: str, *, expected: int | None = None, token: str | None = None
    ) -> versions.Version:
        versions.check(key, reason, author)
        packed = _pack(value, reason, author)
        with self._database.writing() as connection:
            before = None if token is None else _made_by(connection, token)
            if before is None:
                _check_unlocked(connection, key)
                head = _head(connection, key)
                if expected is not None and expected != head:
                    raise errors.Conflict(f"{key} is at version {head}, not {expected}.")
                _append(connection, key, head + 1, packed, token)
                return versions.Version(key, head + 1, value, reason, author)
        return self._version(before)

    def list(self, prefix: str = "") -> Sequence[str]:
        is_under = func.substr(_rows.key, 1, len(prefix)) == prefix  # LIKE would not tell cases apart
        with self._database.reading() as connection:
            return sorted(connection.execute(select(_rows.key).where(_rows.n == 1, is_under)).scalars())

    def history(self, key: str) -> Sequence[versions.Version]:
        with self._database.reading() as connection:
            found = connection.execute(select(*_columns).where(_rows.key == key).order_by(_rows.n)).all()
        return tuple(map(self._version, found))

    def rollback(self, key: str, n: int, reason: str, author: str) -> versions.Version:
        versions.check(key, reason, author)
        value = self.get(key, n).value  # what is old never changes: it may be read outside
        packed = _pack(value, reason, author)
        with self._database.writing() as connection:
            head = _head(connection, key)
            _append(connection, key, head + 1, packed, None)
        return versions.Version(key, head + 1, value, reason, author)

    def lock(self, key: str, reason: str, author: str) -> None:
        self._turn_lock(key, True, reason, author)

    def unlock(self, key: str, reason: str, author: str) -> None:
        self._turn_lock(key, False, reason, author)

    def watch(
        self, prefix: str = "", *, after: int | None = None, timeout: float | None = None
    ) -> Iterator[versions.Version]:
        """Yields new versions of any process as they are made, within about 50 ms.

        Args:
            after: How many changes of the whole store, of whatever key, were seen already: 0 yields all there ever
                was. None means those there are at the moment of the call.
            timeout: Ends when so many seconds pass without a change of any key.
        """
        if after is None:
            with self._database.reading() as connection:
                after = _count(connection)
        return self._follow(prefix, after, timeout)

    def _follow(self, prefix: str, after: int, timeout: float | None) -> Iterator[versions.Version]:
        while True:
            fresh = self._wait(after, timeout)
            if not fresh:
                return
            after = fresh[-1].change
            yield from (self._version(each) for each in fresh if each.key.startswith(prefix))

    def _wait(self, after: int, timeout: float | None) -> Sequence[Any]:
        """Returns changes once there are some, none when time is up."""
        query = select(*_columns).where(_rows.change > after).order_by(_rows.change).limit(CHUNK)
        began = time.monotonic()
        while True:
            with self._database.reading() as connection:
                fresh = connection.execute(query).all()
            left = POLL_SECONDS if timeout is None else began + timeout - time.monotonic()
            if fresh or left <= 0:
                return fresh
            time.sleep(min(left, POLL_SECONDS))

    def _turn_lock(self, key: str, is_locked: bool, reason: str, author: str) -> None:
        versions.check(key, reason, author)
        data = encode([author, reason])
        with self._database.writing() as connection:
            last = connection.execute(select(func.max(_locks.number)).where(_locks.key == key)).scalar() or 0
            row = {"key": key, "number": last + 1, "is_locked": is_locked, "data": data}
            connection.execute(insert(schema.locks), row)

    def _version(self, found: Any) -> versions.Version:
        data = unpack(found.data, found.links, self._blobs.get)
        return versions.Version(found.key, found.n, data["value"], data["reason"], data["author"])


def _check_unlocked(connection: Connection, key: str) -> None:
    query = select(_locks.is_locked, _locks.data).where(_locks.key == key).order_by(_locks.number.desc()).limit(1)
    last = connection.execute(query).one_or_none()
    if last is not None and last.is_locked:
        raise errors.Conflict("{} is locked by {}: {}".format(key, *json.loads(last.data)))


def _made_by(connection: Connection, token: str) -> Any:
    return connection.execute(select(*_columns).where(_rows.token == token)).one_or_none()


def _head(connection: Connection, key: str) -> int:
    return connection.execute(select(func.max(_rows.n)).where(_rows.key == key)).scalar() or 0


def _count(connection: Connection) -> int:
    return connection.execute(select(func.max(_rows.change))).scalar() or 0


def _pack(value: str, reason: str, author: str) -> Packed:
    return pack({"value": value, "reason": reason, "author": author})


def _append(connection: Connection, key: str, n: int, packed: Packed, token: str | None) -> None:
    keep(connection, packed.bodies)
    row = {"change": _count(connection) + 1, "key": key, "n": n, "token": token}
    connection.execute(insert(schema.versions), row | {"data": packed.text, "links": packed.links})
