"""Change log in the database; uses the driver directly for speed."""

import json
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Select, bindparam, func, insert, literal_column, select, text

from atoll import errors
from atoll.store.database import schema
from atoll.store.database.database import Database, PreparedStatement
from atoll.store.records.json_codec import LONG_TEXT_CHARS, Blob
from atoll.store.versions import change as entries
from atoll.store.versions.change import ChangeEntry, KeyState, LogEnd

CHANGES_TOPIC = "changes"  # topic of notifications, and lock of writers

_changes = schema.changes.c
_ENTRY_COLUMNS = (*(_changes[name] for name in ChangeEntry._fields), _changes.body)
_key: BindParameter[str] = bindparam("key")
_seq: BindParameter[int] = bindparam("seq")
_limit: BindParameter[int] = bindparam("limit")
# Literals, because SQLAlchemy would make numbers parameters.
_ONE: ColumnElement[int] = literal_column("1")
_ZERO: ColumnElement[int] = literal_column("0")
# LIKE would ignore case.
_has_prefix = func.substr(_changes.key, _ONE, bindparam("length")) == bindparam("prefix")


class ChangeStatements:
    """Statements of the change log, compiled once."""

    def __init__(self, database: Database) -> None:
        def prepare(query: Select[Any], *names: str) -> PreparedStatement:
            return PreparedStatement(database.engine, query, names)

        key_entries = select(*_ENTRY_COLUMNS).where(_changes.key == _key)
        versions = key_entries.where(_changes.n.is_not(None))
        annotations = key_entries.where(schema.NO_VERSION)
        span = select(*_ENTRY_COLUMNS).where(_changes.seq >= _seq, _changes.seq <= bindparam("upto"))
        log_end = (
            select(_changes.seq, _changes.hash, _changes.at).order_by(_changes.seq.desc()).limit(_ONE).offset(_ZERO)
        )
        self.end = prepare(log_end)
        self.last_version = prepare(select(func.max(_changes.n)).where(_changes.key == _key), "key")
        self.head = prepare(versions.order_by(_changes.n.desc()).limit(_ONE).offset(_ZERO), "key")
        value_query = select(_changes.value, _changes.n, _changes.body).where(
            _changes.key == _key, _changes.n.is_not(None)
        )
        self.value = prepare(value_query.order_by(_changes.n.desc()).limit(_ONE).offset(_ZERO), "key")
        as_of_query = versions.where(_changes.seq <= _seq).order_by(_changes.n.desc()).limit(_ONE).offset(_ZERO)
        self.head_as_of = prepare(as_of_query, "key", "seq")
        self.version = prepare(key_entries.where(_changes.n == bindparam("n")), "key", "n")
        self.history = prepare(versions.order_by(_changes.n.desc()).limit(_limit).offset(_ZERO), "key", "limit")
        self.annotations = prepare(annotations.where(_changes.seq <= _seq).order_by(_changes.seq), "key", "seq")
        lock_query = (
            annotations.where(text("kind IN ('lock', 'unlock')"))
            .order_by(_changes.seq.desc())
            .limit(_ONE)
            .offset(_ZERO)
        )
        self.lock = PreparedStatement(database.engine, lock_query, ["key"])
        alias_query = annotations.where(_changes.kind == bindparam("kind"), _changes.value == bindparam("name"))
        self.alias = prepare(alias_query.order_by(_changes.seq.desc()).limit(_ONE).offset(_ZERO), "key", "kind", "name")
        self.by_token = prepare(select(*_ENTRY_COLUMNS).where(_changes.token == bindparam("token")), "token")
        prefix_names = ("length", "prefix")
        self.keys = prepare(select(_changes.key).where(text("n = 1"), _has_prefix), *prefix_names)
        newest_seqs = select(func.max(_changes.seq)).where(_changes.n.is_not(None), _changes.seq <= _seq, _has_prefix)
        self.heads = prepare(
            select(*_ENTRY_COLUMNS).where(_changes.seq.in_(newest_seqs.group_by(_changes.key))), "seq", *prefix_names
        )
        forward = span.where(_has_prefix).order_by(_changes.seq).limit(_limit).offset(_ZERO)
        self.forward = prepare(forward, "seq", "upto", *prefix_names, "limit")
        backward = span.where(_has_prefix).order_by(_changes.seq.desc()).limit(_limit).offset(_ZERO)
        self.backward = prepare(backward, "seq", "upto", *prefix_names, "limit")
        before_query = (
            select(_changes.seq)
            .where(_changes.at <= bindparam("at"))
            .order_by(_changes.seq.desc())
            .limit(_ONE)
            .offset(_ZERO)
        )
        self.seq_at = prepare(before_query, "at")
        self.insert = PreparedStatement(
            database.engine, insert(schema.changes), [column.name for column in _ENTRY_COLUMNS]
        )
        self.blob = prepare(select(schema.blobs).where(schema.blobs.c.sha256 == bindparam("sha256")), "sha256")
        insert_blob = schema.insert_for(database.engine.dialect.name)(schema.blobs).on_conflict_do_nothing()
        self.insert_blob = PreparedStatement(database.engine, insert_blob, [column.name for column in schema.blobs.c])


_compiled: dict[str, ChangeStatements] = {}  # by dialect; compiling takes as long as opening a store


class SQLChangeLog:
    """Changes in the table `changes`, shared by processes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._statements = _compiled.get(database.engine.dialect.name) or ChangeStatements(database)
        _compiled[database.engine.dialect.name] = self._statements

    @contextmanager
    def begin_write(self) -> Iterator["SQLChangeWriter"]:
        with self._database.begin_write(CHANGES_TOPIC) as connection:
            writer = SQLChangeWriter(self._statements, connection.connection.cursor())
            old_end = writer.get_end()
            yield writer
            if writer.get_end() is not old_end:
                self._database.dialect.notify(connection.connection.cursor(), CHANGES_TOPIC)

    def get_head(self, key: str, as_of: int | None = None) -> ChangeEntry | None:
        if as_of is None:
            return self._fetch_one(self._statements.head, key)
        return self._fetch_one(self._statements.head_as_of, key, as_of)

    def get_value(self, key: str) -> tuple[str, int] | None:
        with self._database.open_cursor() as cursor:
            rows = self._statements.value.fetch_rows(cursor, key)
        if not rows:
            return None
        value, n, blob_hash = rows[0]
        if blob_hash is None and value is not None:
            return value, n
        head = self.get_head(key)
        return None if head is None else (head.value or "null", head.n or 0)

    def get_version(self, key: str, version: int) -> ChangeEntry | None:
        return self._fetch_one(self._statements.version, key, version)

    def list_history(self, key: str, limit: int) -> Sequence[ChangeEntry]:
        return self._fetch_all(self._statements.history, key, limit if limit > 0 else sys.maxsize)[::-1]

    def list_annotations(self, key: str, as_of: int | None = None) -> Sequence[ChangeEntry]:
        return self._fetch_all(self._statements.annotations, key, sys.maxsize if as_of is None else as_of)

    def list_keys(self, prefix: str) -> Sequence[str]:
        with self._database.open_cursor() as cursor:
            return sorted(key for (key,) in self._statements.keys.fetch_rows(cursor, len(prefix), prefix))

    def list_heads(self, prefix: str, as_of: int) -> Sequence[ChangeEntry]:
        return sorted(self._fetch_all(self._statements.heads, as_of, len(prefix), prefix), key=lambda entry: entry.key)

    def list_entries(self, prefix: str, after: int, end: int | None, limit: int) -> Sequence[ChangeEntry]:
        last_seq = sys.maxsize if end is None else end
        return self._fetch_all(self._statements.forward, after + 1, last_seq, len(prefix), prefix, limit)

    def list_newest(self, prefix: str, after: int, limit: int) -> Sequence[ChangeEntry]:
        return self._fetch_all(self._statements.backward, after + 1, sys.maxsize, len(prefix), prefix, limit)[::-1]

    def get_end(self) -> LogEnd:
        with self._database.open_cursor() as cursor:
            rows = self._statements.end.fetch_rows(cursor)
        return LogEnd(*rows[0]) if rows else LogEnd()

    def get_seq_at(self, timestamp: str) -> int:
        with self._database.open_cursor() as cursor:
            rows = self._statements.seq_at.fetch_rows(cursor, timestamp)
        return rows[0][0] if rows else 0

    def wait_for_change(self, after: int, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        if self.get_end().seq > after:
            return True
        if timeout <= 0:
            return False
        with self._database.listen(CHANGES_TOPIC) as signal:
            while self.get_end().seq <= after:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return False
                signal.wait(remaining)
                self._database.check_open()
        return True

    def close(self) -> None:
        """Does nothing: the store closes the database."""

    def _fetch_one(self, query: PreparedStatement, *values: Any) -> ChangeEntry | None:
        with self._database.open_cursor() as cursor:
            rows = query.fetch_rows(cursor, *values)
            return self._read_entry(cursor, rows[0]) if rows else None

    def _fetch_all(self, query: PreparedStatement, *values: Any) -> list[ChangeEntry]:
        with self._database.open_cursor() as cursor:
            return [self._read_entry(cursor, row) for row in query.fetch_rows(cursor, *values)]

    def _read_entry(self, cursor: Any, row: Sequence[Any]) -> ChangeEntry:
        return read_entry(self._statements, cursor, row)


class SQLChangeWriter:
    """Writes changes inside a transaction."""

    def __init__(self, statements: ChangeStatements, cursor: Any) -> None:
        self._statements, self._cursor = statements, cursor
        rows = statements.end.fetch_rows(cursor)
        self._end = LogEnd(*rows[0]) if rows else LogEnd()
        self._states: dict[str, KeyState] = {}  # valid because this is the only writer

    def get_end(self) -> LogEnd:
        return self._end

    def get_state(self, key: str) -> KeyState:
        if key not in self._states:
            n = self._statements.last_version.fetch_value(self._cursor, key) or 0
            lock = self._fetch_one(self._statements.lock, key)
            self._states[key] = KeyState(n, lock if lock is not None and lock.kind == entries.LOCK else None)
        return self._states[key]

    def get_version(self, key: str, version: int) -> ChangeEntry | None:
        return self._fetch_one(self._statements.version, key, version)

    def get_last_alias_change(self, key: str, name: str) -> ChangeEntry | None:
        return self._fetch_one(self._statements.alias, key, entries.ALIAS, json.dumps(name))

    def find_by_token(self, token: str) -> ChangeEntry | None:
        return self._fetch_one(self._statements.by_token, token)

    def append(self, change: ChangeEntry) -> None:
        blob = None
        row: tuple[Any, ...] = change
        if change.value is not None and len(change.value) > LONG_TEXT_CHARS:
            blob = Blob.from_bytes(change.value.encode())
            self._statements.insert_blob.execute(self._cursor, [blob])
            row = change._replace(value=None)
        self._statements.insert.execute(self._cursor, [(*row, None if blob is None else blob.sha256)])
        self._end = LogEnd(change.seq, change.hash, change.at)
        if change.n is not None:
            self._states[change.key] = KeyState(change.n, self.get_state(change.key).lock)
        else:
            self._states.pop(change.key, None)

    def _fetch_one(self, query: PreparedStatement, *values: Any) -> ChangeEntry | None:
        rows = query.fetch_rows(self._cursor, *values)
        return read_entry(self._statements, self._cursor, rows[0]) if rows else None


def read_entry(statements: ChangeStatements, cursor: Any, row: Sequence[Any]) -> ChangeEntry:
    """Converts a row to a change; loads its value if it is a blob.

    Raises:
        StoreFailed: The value is missing or damaged.
    """
    entry = ChangeEntry._make(row[:-1])
    if row[-1] is None:
        return entry
    blob_rows = statements.blob.fetch_rows(cursor, row[-1]) if entry.value is None else ()
    try:
        return entry._replace(value=Blob(*blob_rows[0]).decompress().decode())
    except (ValueError, IndexError, zlib.error) as error:
        raise errors.StoreFailed(f"The value of change {entry.seq} is damaged. Restore a backup.") from error
