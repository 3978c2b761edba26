"""All that a store holds, in an order that is the same everywhere, with what it comes to as a hash."""

import hashlib
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, inspect, select, tuple_

from atoll import errors
from atoll.store import schema, timeline
from atoll.store.entry import ChangeEntry
from atoll.store.packing import Blob

CHUNK = 1000  # rows in memory at a time; what is long stands among the bodies
BLOB_CHUNK = 20

# What belongs to a run, by the column that names the run, in the order of the rest of its key.
RUN_TABLES = (schema.records, schema.candidates, schema.commands)


class RunContents(NamedTuple):
    """What a store has of one run.

    Attributes:
        digest: SHA-256 over all its rows: equal runs have equal ones, in whatever store.
    """

    run: str
    records: int
    candidates: int
    commands: int
    digest: str


@dataclass(frozen=True, slots=True)
class StoreContents:
    """What a store holds in all; `hash` is that of the last change."""

    runs: Sequence[RunContents] = ()
    changes: int = 0
    hash: str = ""
    blobs: int = 0
    moments: int = 0


class RowHash:
    """Adds up rows to a number and a hash."""

    def __init__(self) -> None:
        self.num_rows, self._hash = 0, hashlib.sha256()

    def add(self, rows: Iterable[Sequence[Any]]) -> None:
        for row in rows:
            self.num_rows += 1
            self._hash.update(repr(tuple(row)).encode())

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


class RunHash:
    """Adds up the rows of one run, table by table."""

    def __init__(self, run: Sequence[Any]) -> None:
        self._run, self._hash, self._counts = str(run[0]), RowHash(), Counter[str]()
        self._hash.add([run])

    def add(self, table: Table, rows: Sequence[Sequence[Any]]) -> None:
        self._hash.add(rows)
        self._counts[table.name] += len(rows)

    def to_contents(self) -> RunContents:
        records, candidates, commands = (self._counts[table.name] for table in RUN_TABLES)
        return RunContents(self._run, records, candidates, commands, self._hash.hexdigest())


def list_run_rows(connection: Connection) -> Sequence[Any]:
    """Returns all rows of `runs`, oldest first."""
    return connection.execute(select(schema.runs).order_by(schema.runs.c.number)).all()


def iter_run_rows(connection: Connection, table: Table, run_number: int) -> Iterator[Sequence[Any]]:
    """Yields the rows of a run in portions, without its number."""
    key = [column for column in table.primary_key if column.name != "run"]
    columns = [column for column in table.c if column.name != "run"]
    return iter_chunks(connection, columns, key, table.c.run == run_number)


def iter_chunks(
    connection: Connection,
    columns: Sequence[Any],
    key: Sequence[ColumnElement[Any]],
    condition: ColumnElement[bool] | None = None,
    size: int = CHUNK,
) -> Iterator[Sequence[Any]]:
    """Yields rows in the order of a key, which is among the columns, so many at a time."""
    query = select(*columns).order_by(*key).limit(size)
    query = query if condition is None else query.where(condition)
    indexes = [list(columns).index(column) for column in key]
    rows = connection.execute(query).all()
    while rows:
        yield rows
        last = [rows[-1][index] for index in indexes]
        rows = connection.execute(query.where(tuple_(*key) > tuple_(*last))).all() if len(rows) == size else []


def hash_run(connection: Connection, run_number: int, run_row: Sequence[Any]) -> RunContents:
    """Returns what there is of a run; `run` is its row without its number."""
    run_hash = RunHash(run_row)
    for table in RUN_TABLES:
        for rows in iter_run_rows(connection, table, run_number):
            run_hash.add(table, rows)
    return run_hash.to_contents()


def iter_entries(connection: Connection) -> Iterator[ChangeEntry]:
    """Yields all changes, with their values.

    Raises:
        StoreFailed: A value is lost or damaged.
    """
    all_columns = [*(schema.changes.c[name] for name in ChangeEntry._fields), schema.changes.c.body]
    for rows in iter_chunks(connection, all_columns, [schema.changes.c.seq]):
        for *columns, blob_hash in rows:
            entry = ChangeEntry(*columns)
            yield entry if blob_hash is None else entry._replace(value=_load_value(connection, entry, blob_hash))


def _load_value(connection: Connection, entry: ChangeEntry, sha256: str) -> str:
    row = connection.execute(select(schema.blobs).where(schema.blobs.c.sha256 == sha256)).one_or_none()
    if row is None or entry.value is not None or not is_intact(Blob(*row)):
        raise errors.StoreFailed(f"The value of change {entry.seq} is damaged: use a copy that is whole.")
    return Blob(*row).decompress().decode()


def iter_blobs(connection: Connection) -> Iterator[Sequence[Blob]]:
    """Yields all bodies, a few at a time."""
    for rows in iter_chunks(connection, list(schema.blobs.c), [schema.blobs.c.sha256], size=BLOB_CHUNK):
        yield [Blob(*row) for row in rows]


def is_intact(blob: Blob) -> bool:
    """Says whether a body is what its hash says."""
    try:
        return hashlib.sha256(blob.decompress()).hexdigest() == blob.sha256
    except (zlib.error, TypeError):  # SQLite may hold a text where bytes belong
        return False


def has_streams(connection: Connection) -> bool:
    return inspect(connection).has_table(timeline.moments.name)


def iter_stream_rows(connection: Connection) -> Iterator[Sequence[Any]]:
    """Yields what streams hold in portions: the number of each row, then the rest."""
    if has_streams(connection):
        yield from iter_chunks(connection, list(timeline.moments.c), [timeline.moments.c.number])


def find_damage(connection: Connection, on_run: Callable[[RunContents], None] = lambda run: None) -> Sequence[str]:
    """Looks for what is lost or damaged among runs and bodies, and returns it in words."""
    problems = list[str]()
    for run_number, *run_row in list_run_rows(connection):
        contents = hash_run(connection, run_number, run_row)
        on_run(contents)
        problems += _find_missing_rows(connection, run_number, contents)
    for blobs in iter_blobs(connection):
        problems += [f"The body {blob.sha256} is damaged." for blob in blobs if not is_intact(blob)]
    return problems


def _find_missing_rows(connection: Connection, run_number: int, contents: RunContents) -> Iterator[str]:
    seqs = select(schema.records.c.seq).where(schema.records.c.run == run_number)
    last = connection.execute(seqs.order_by(schema.records.c.seq.desc()).limit(1)).scalar() or 0
    if last != contents.records:
        yield f"Run {contents.run} has {contents.records} records, and its last is number {last}."
    missing = select(schema.candidates.c.step).where(
        schema.candidates.c.run == run_number, schema.candidates.c.seq.not_in(seqs)
    )
    if connection.execute(missing.limit(1)).first() is not None:
        yield f"Run {contents.run} has candidates without the records that hold them."
