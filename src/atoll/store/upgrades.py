"""The steps from a schema to the next one, as they were written when it came.

A step names its tables in SQL and knows none of `schema`, which are those of today.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, text

from atoll.store.entry import GENESIS, ChangeEntry
from atoll.store.packing import LONG_TEXT_CHARS, Blob, encode, unpack

CREATE_CHANGES = """
CREATE TABLE changes (
    seq INTEGER NOT NULL PRIMARY KEY, "key" VARCHAR NOT NULL, kind VARCHAR NOT NULL, n INTEGER, target INTEGER,
    value TEXT, reason TEXT NOT NULL, author VARCHAR NOT NULL, at VARCHAR NOT NULL, token VARCHAR UNIQUE,
    hash VARCHAR(64) NOT NULL, body VARCHAR(64), UNIQUE ("key", n)
)
"""
CREATE_CHANGES_INDEX = 'CREATE INDEX changes_beside ON changes ("key", seq) WHERE n IS NULL'


def chain_versions(connection: Connection) -> None:
    """Takes versions and locks into one sequence of changes with a chain of hashes.

    Schema 1 kept no times, and no order between locks and versions: all get the time of the upgrade, and the locks
    come behind the versions.
    """
    timestamp = datetime.now(UTC).isoformat(timespec="microseconds")
    connection.exec_driver_sql(CREATE_CHANGES)
    connection.exec_driver_sql(CREATE_CHANGES_INDEX)
    heads: dict[str, int] = {}
    seq, last_hash = 0, GENESIS
    versions = "SELECT key, n, token, data, links FROM versions ORDER BY change"
    for key, n, token, data, links in connection.exec_driver_sql(versions).all():
        old = unpack(data, links, lambda sha256: _load_blob(connection, sha256))
        seq, heads[key] = seq + 1, n
        value = encode(old["value"])
        version_reason, version_author = _escape_unstorable(old["reason"]), _escape_unstorable(old["author"])
        entry = ChangeEntry(seq, key, "set", n, None, value, version_reason, version_author, timestamp, token)
        last_hash = _insert_entry(connection, entry.with_hash(last_hash))
    locks = "SELECT key, is_locked, data FROM locks ORDER BY key, number"
    for key, is_locked, data in connection.exec_driver_sql(locks).all():
        author, reason = map(_escape_unstorable, json.loads(data))
        seq, kind = seq + 1, "lock" if is_locked else "unlock"
        entry = ChangeEntry(seq, key, kind, None, heads.get(key, 0), None, reason, author, timestamp, None)
        last_hash = _insert_entry(connection, entry.with_hash(last_hash))
    connection.exec_driver_sql("DROP TABLE versions")
    connection.exec_driver_sql("DROP TABLE locks")


def _escape_unstorable(text: str) -> str:
    """Returns a text without half characters and zero bytes, which a column of its own cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _load_blob(connection: Connection, sha256: str) -> bytes:
    query = "SELECT sha256, size, is_compressed, body FROM blobs WHERE sha256 = :sha256"
    return Blob(*_execute(connection, query, {"sha256": sha256}).one()).decompress()


def _insert_entry(connection: Connection, entry: ChangeEntry) -> str:
    values: dict[str, Any] = entry._asdict() | {"body": None}
    if entry.value is not None and len(entry.value) > LONG_TEXT_CHARS:
        stored_blob = Blob.from_bytes(entry.value.encode())
        insert_blob = "INSERT INTO blobs VALUES (:sha256, :size, :is_compressed, :stored) ON CONFLICT DO NOTHING"
        _execute(connection, insert_blob, stored_blob._asdict())
        values |= {"value": None, "body": stored_blob.sha256}
    names = ", ".join(values)
    _execute(connection, f"INSERT INTO changes ({names}) VALUES ({', '.join(f':{name}' for name in values)})", values)
    return entry.hash


def _execute(connection: Connection, statement: str, values: Mapping[str, Any]) -> Any:
    return connection.execute(text(statement), dict(values))
