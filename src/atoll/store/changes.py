"""The changes of all keys in the database, written and read by the driver."""

import json
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Select, bindparam, func, insert, literal_column, select, text

from atoll import errors
from atoll.store import entry as entries
from atoll.store import schema
from atoll.store.book import State, Tail
from atoll.store.database import Database, Prepared
from atoll.store.entry import Entry
from atoll.store.packing import LONG, Body

CHANGES = "changes"  # what those listen for who wait, and what writers lock

_rows = schema.changes.c
_ALL = (*(_rows[name] for name in Entry._fields), _rows.body)
_key: BindParameter[str] = bindparam("key")
_seq: BindParameter[int] = bindparam("seq")
_limit: BindParameter[int] = bindparam("limit")
# Written out: what is a number for SQLAlchemy would be one more value to give.
_ONE: ColumnElement[int] = literal_column("1")
_NONE: ColumnElement[int] = literal_column("0")
_is_under = func.substr(_rows.key, _ONE, bindparam("length")) == bindparam("prefix")  # LIKE would not tell cases apart


class Statements:
    """What a book asks of the database, compiled once."""

    def __init__(self, database: Database) -> None:
        def prepared(query: Select[Any], *names: str) -> Prepared:
            return Prepared(database.engine, query, names)

        of_key = select(*_ALL).where(_rows.key == _key)
        versions = of_key.where(_rows.n.is_not(None))
        beside = of_key.where(schema.BESIDE)
        span = select(*_ALL).where(_rows.seq >= _seq, _rows.seq <= bindparam("upto"))
        end = select(_rows.seq, _rows.hash, _rows.at).order_by(_rows.seq.desc()).limit(_ONE).offset(_NONE)
        self.tail = prepared(end)
        self.last = prepared(select(func.max(_rows.n)).where(_rows.key == _key), "key")
        self.head = prepared(versions.order_by(_rows.n.desc()).limit(_ONE).offset(_NONE), "key")
        short = select(_rows.value, _rows.n, _rows.body).where(_rows.key == _key, _rows.n.is_not(None))
        self.value = prepared(short.order_by(_rows.n.desc()).limit(_ONE).offset(_NONE), "key")
        then = versions.where(_rows.seq <= _seq).order_by(_rows.n.desc()).limit(_ONE).offset(_NONE)
        self.head_then = prepared(then, "key", "seq")
        self.version = prepared(of_key.where(_rows.n == bindparam("n")), "key", "n")
        self.history = prepared(versions.order_by(_rows.n.desc()).limit(_limit).offset(_NONE), "key", "limit")
        self.beside = prepared(beside.where(_rows.seq <= _seq).order_by(_rows.seq), "key", "seq")
        turns = beside.where(text("kind IN ('lock', 'unlock')")).order_by(_rows.seq.desc()).limit(_ONE).offset(_NONE)
        self.lock = Prepared(database.engine, turns, ["key"])
        moves = beside.where(_rows.kind == bindparam("kind"), _rows.value == bindparam("name"))
        self.alias = prepared(moves.order_by(_rows.seq.desc()).limit(_ONE).offset(_NONE), "key", "kind", "name")
        self.by_token = prepared(select(*_ALL).where(_rows.token == bindparam("token")), "token")
        under = ("length", "prefix")
        self.keys = prepared(select(_rows.key).where(text("n = 1"), _is_under), *under)
        newest = select(func.max(_rows.seq)).where(_rows.n.is_not(None), _rows.seq <= _seq, _is_under)
        self.heads = prepared(select(*_ALL).where(_rows.seq.in_(newest.group_by(_rows.key))), "seq", *under)
        forth = span.where(_is_under).order_by(_rows.seq).limit(_limit).offset(_NONE)
        self.forth = prepared(forth, "seq", "upto", *under, "limit")
        back = span.where(_is_under).order_by(_rows.seq.desc()).limit(_limit).offset(_NONE)
        self.back = prepared(back, "seq", "upto", *under, "limit")
        before = (
            select(_rows.seq).where(_rows.at <= bindparam("at")).order_by(_rows.seq.desc()).limit(_ONE).offset(_NONE)
        )
        self.seq_at = prepared(before, "at")
        self.put = Prepared(database.engine, insert(schema.changes), [column.name for column in _ALL])
        self.body = prepared(select(schema.blobs).where(schema.blobs.c.sha256 == bindparam("sha256")), "sha256")
        kept = schema.insert_for(database.engine.dialect.name)(schema.blobs).on_conflict_do_nothing()
        self.keep = Prepared(database.engine, kept, [column.name for column in schema.blobs.c])


_compiled: dict[str, Statements] = {}  # by dialect: to compile them takes as long as to open a store


class StoredBook:
    """Entries in the table `changes`; processes share them through the file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ask = _compiled.get(database.engine.dialect.name) or Statements(database)
        _compiled[database.engine.dialect.name] = self._ask

    @contextmanager
    def writing(self) -> Iterator["StoredPen"]:
        with self._database.writing(CHANGES) as connection:
            pen = StoredPen(self._ask, connection.connection.cursor())
            before = pen.tail()
            yield pen
            if pen.tail() is not before:
                self._database.dialect.announce(connection.connection.cursor(), CHANGES)

    def head(self, key: str, upto: int | None = None) -> Entry | None:
        if upto is None:
            return self._one(self._ask.head, key)
        return self._one(self._ask.head_then, key, upto)

    def value(self, key: str) -> tuple[str, int] | None:
        with self._database.glance() as cursor:
            found = self._ask.value.rows(cursor, key)
        if not found:
            return None
        value, n, body = found[0]
        if body is None and value is not None:
            return value, n
        head = self.head(key)
        return None if head is None else (head.value or "null", head.n or 0)

    def version(self, key: str, n: int) -> Entry | None:
        return self._one(self._ask.version, key, n)

    def history(self, key: str, limit: int) -> Sequence[Entry]:
        return self._some(self._ask.history, key, limit if limit > 0 else sys.maxsize)[::-1]

    def beside(self, key: str, upto: int | None = None) -> Sequence[Entry]:
        return self._some(self._ask.beside, key, sys.maxsize if upto is None else upto)

    def keys(self, prefix: str) -> Sequence[str]:
        with self._database.glance() as cursor:
            return sorted(key for (key,) in self._ask.keys.rows(cursor, len(prefix), prefix))

    def heads(self, prefix: str, upto: int) -> Sequence[Entry]:
        return sorted(self._some(self._ask.heads, upto, len(prefix), prefix), key=lambda each: each.key)

    def entries(self, prefix: str, after: int, upto: int | None, limit: int) -> Sequence[Entry]:
        last = sys.maxsize if upto is None else upto
        return self._some(self._ask.forth, after + 1, last, len(prefix), prefix, limit)

    def newest(self, prefix: str, after: int, limit: int) -> Sequence[Entry]:
        return self._some(self._ask.back, after + 1, sys.maxsize, len(prefix), prefix, limit)[::-1]

    def tail(self) -> Tail:
        with self._database.glance() as cursor:
            found = self._ask.tail.rows(cursor)
        return Tail(*found[0]) if found else Tail()

    def seq_at(self, at: str) -> int:
        with self._database.glance() as cursor:
            found = self._ask.seq_at.rows(cursor, at)
        return found[0][0] if found else 0

    def wait(self, after: int, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        if self.tail().seq > after:
            return True
        if timeout <= 0:
            return False
        with self._database.signal(CHANGES) as signal:
            while self.tail().seq <= after:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                signal.wait(left)
                self._database.check_open()
        return True

    def close(self) -> None:
        """The store closes the database."""

    def _one(self, query: Prepared, *values: Any) -> Entry | None:
        with self._database.glance() as cursor:
            found = query.rows(cursor, *values)
            return self._ask_entry(cursor, found[0]) if found else None

    def _some(self, query: Prepared, *values: Any) -> list[Entry]:
        with self._database.glance() as cursor:
            return [self._ask_entry(cursor, row) for row in query.rows(cursor, *values)]

    def _ask_entry(self, cursor: Any, row: Sequence[Any]) -> Entry:
        return read(self._ask, cursor, row)


class StoredPen:
    """Writes inside a transaction."""

    def __init__(self, ask: Statements, cursor: Any) -> None:
        self._ask, self._cursor = ask, cursor
        found = ask.tail.rows(cursor)
        self._tail = Tail(*found[0]) if found else Tail()
        self._states: dict[str, State] = {}  # nobody else changes them while the pen is out

    def tail(self) -> Tail:
        return self._tail

    def state(self, key: str) -> State:
        if key not in self._states:
            n = self._ask.last.value(self._cursor, key) or 0
            lock = self._one(self._ask.lock, key)
            self._states[key] = State(n, lock if lock is not None and lock.kind == entries.LOCK else None)
        return self._states[key]

    def version(self, key: str, n: int) -> Entry | None:
        return self._one(self._ask.version, key, n)

    def alias(self, key: str, name: str) -> Entry | None:
        return self._one(self._ask.alias, key, entries.ALIAS, json.dumps(name))

    def by_token(self, token: str) -> Entry | None:
        return self._one(self._ask.by_token, token)

    def put(self, entry: Entry) -> None:
        body = None
        row: tuple[Any, ...] = entry
        if entry.value is not None and len(entry.value) > LONG:
            body = Body.of(entry.value.encode())
            self._ask.keep.run(self._cursor, [body])
            row = entry._replace(value=None)
        self._ask.put.run(self._cursor, [(*row, None if body is None else body.sha256)])
        self._tail = Tail(entry.seq, entry.hash, entry.at)
        if entry.n is not None:
            self._states[entry.key] = State(entry.n, self.state(entry.key).lock)
        else:
            self._states.pop(entry.key, None)

    def _one(self, query: Prepared, *values: Any) -> Entry | None:
        found = query.rows(self._cursor, *values)
        return read(self._ask, self._cursor, found[0]) if found else None


def read(ask: Statements, cursor: Any, row: Sequence[Any]) -> Entry:
    """Returns a row as an entry, with its value where that stands apart.

    Raises:
        StoreFailed: The value is lost or damaged.
    """
    made = Entry._make(row[:-1])
    if row[-1] is None:
        return made
    found = ask.body.rows(cursor, row[-1]) if made.value is None else ()
    try:
        return made._replace(value=Body(*found[0]).open().decode())
    except (ValueError, IndexError, zlib.error) as error:
        raise errors.StoreFailed(f"The value of change {made.seq} is damaged: use a copy that is whole.") from error
