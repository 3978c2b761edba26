"""The steps from a schema to the next one, as they were written when it came.

A step names its tables in SQL and knows none of `schema`, which are those of today.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, text

from atoll.store.entry import GENESIS, Entry
from atoll.store.packing import LONG, Body, encode, unpack

CHANGES = """
CREATE TABLE changes (
    seq INTEGER NOT NULL PRIMARY KEY, "key" VARCHAR NOT NULL, kind VARCHAR NOT NULL, n INTEGER, target INTEGER,
    value TEXT, reason TEXT NOT NULL, author VARCHAR NOT NULL, at VARCHAR NOT NULL, token VARCHAR UNIQUE,
    hash VARCHAR(64) NOT NULL, body VARCHAR(64), UNIQUE ("key", n)
)
"""
BESIDE = 'CREATE INDEX changes_beside ON changes ("key", seq) WHERE n IS NULL'


def chain_versions(connection: Connection) -> None:
    """Takes versions and locks into one sequence of changes with a chain of hashes.

    Schema 1 kept no times, and no order between locks and versions: all get the time of the upgrade, and the locks
    come behind the versions.
    """
    at = datetime.now(UTC).isoformat(timespec="microseconds")
    connection.exec_driver_sql(CHANGES)
    connection.exec_driver_sql(BESIDE)
    heads: dict[str, int] = {}
    seq, last = 0, GENESIS
    versions = "SELECT key, n, token, data, links FROM versions ORDER BY change"
    for key, n, token, data, links in connection.exec_driver_sql(versions).all():
        old = unpack(data, links, lambda sha256: _body(connection, sha256))
        seq, heads[key] = seq + 1, n
        value = encode(old["value"])
        why, who = _whole(old["reason"]), _whole(old["author"])
        plain = Entry(seq, key, "set", n, None, value, why, who, at, token)
        last = _write(connection, plain.chained(last))
    locks = "SELECT key, is_locked, data FROM locks ORDER BY key, number"
    for key, is_locked, data in connection.exec_driver_sql(locks).all():
        author, reason = map(_whole, json.loads(data))
        seq, kind = seq + 1, "lock" if is_locked else "unlock"
        plain = Entry(seq, key, kind, None, heads.get(key, 0), None, reason, author, at, None)
        last = _write(connection, plain.chained(last))
    connection.exec_driver_sql("DROP TABLE versions")
    connection.exec_driver_sql("DROP TABLE locks")


def _whole(text: str) -> str:
    """Returns a text without half characters and zero bytes, which a column of its own cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _body(connection: Connection, sha256: str) -> bytes:
    query = "SELECT sha256, size, is_compressed, body FROM blobs WHERE sha256 = :sha256"
    return Body(*_run(connection, query, {"sha256": sha256}).one()).open()


def _write(connection: Connection, entry: Entry) -> str:
    values: dict[str, Any] = entry._asdict() | {"body": None}
    if entry.value is not None and len(entry.value) > LONG:
        body = Body.of(entry.value.encode())
        blob = "INSERT INTO blobs VALUES (:sha256, :size, :is_compressed, :stored) ON CONFLICT DO NOTHING"
        _run(connection, blob, body._asdict())
        values |= {"value": None, "body": body.sha256}
    names = ", ".join(values)
    _run(connection, f"INSERT INTO changes ({names}) VALUES ({', '.join(f':{name}' for name in values)})", values)
    return entry.hash


def _run(connection: Connection, statement: str, values: Mapping[str, Any]) -> Any:
    return connection.execute(text(statement), dict(values))
