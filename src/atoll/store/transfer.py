"""Copies and checks whole stores: rows in a fixed order, with hashes."""

import hashlib
import itertools
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Table,
    cast,
    func,
    insert,
    inspect,
    select,
    tuple_,
    type_coerce,
)

from atoll import errors
from atoll.store import event_streams
from atoll.store.candidates import derive_columns
from atoll.store.database import schema
from atoll.store.database.database import GLOBAL_LOCK, Database
from atoll.store.records import leases, seals
from atoll.store.records.blobs import insert_blobs
from atoll.store.records.json_codec import Blob
from atoll.store.store import RUNS_LOCK
from atoll.store.versions import audit
from atoll.store.versions.change import ChangeEntry
from atoll.store.versions.sql_change_log import CHANGES_TOPIC

CHUNK = 1000  # rows in memory
BLOB_CHUNK = 20

# Tables with a column `run`, read in the order of their primary keys.
RUN_TABLES = (schema.records, schema.candidates, schema.commands)


class RunContents(NamedTuple):
    """Numbers of rows of one run.

    Attributes:
        digest: SHA-256 of all rows; equal for equal runs in any store.
        unchained: Records that an earlier version wrote without a seal; changes of these are not found.
    """

    run: str
    records: int
    candidates: int
    commands: int
    digest: str
    unchained: int = 0


@dataclass(frozen=True, slots=True)
class StoreContents:
    """Contents of a store; `hash` is the hash of the last change."""

    runs: Sequence[RunContents] = ()
    changes: int = 0
    hash: str = ""
    blobs: int = 0
    moments: int = 0


class RowHash:
    """Counts and hashes rows."""

    def __init__(self) -> None:
        self.num_rows, self._hash = 0, hashlib.sha256()

    def add(self, rows: Iterable[Sequence[Any]]) -> None:
        for row in rows:
            self.num_rows += 1
            self._hash.update(repr(tuple(row)).encode())

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


class RunHash:
    """Counts and hashes the rows of one run, table by table."""

    def __init__(self, run: Sequence[Any]) -> None:
        self._run, self._hash, self._counts = str(run[0]), RowHash(), Counter[str]()
        self._hash.add([run])

    def add(self, table: Table, rows: Sequence[Sequence[Any]]) -> None:
        # A record without a time hashes as in version 0.1, which had no times; `at` is the last column.
        is_records = table is schema.records
        self._hash.add(row[:-1] if is_records and row[-1] is None else row for row in rows)
        self._counts[table.name] += len(rows)

    def to_contents(self) -> RunContents:
        records, candidates, commands = (self._counts[table.name] for table in RUN_TABLES)
        return RunContents(self._run, records, candidates, commands, self._hash.hexdigest())


def list_run_rows(connection: Connection) -> Sequence[Any]:
    """Returns all rows of `runs`, oldest first."""
    return connection.execute(select(schema.runs).order_by(schema.runs.c.number)).all()


def iter_run_rows(connection: Connection, table: Table, run_number: int) -> Iterator[Sequence[Any]]:
    """Yields the rows of a run in chunks, without the run number."""
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
    """Yields rows in chunks, ordered by a key whose columns are selected."""
    query = select(*columns).order_by(*key).limit(size)
    query = query if condition is None else query.where(condition)
    indexes = [list(columns).index(column) for column in key]
    rows = connection.execute(query).all()
    while rows:
        yield rows
        last = [rows[-1][index] for index in indexes]
        rows = connection.execute(query.where(tuple_(*key) > tuple_(*last))).all() if len(rows) == size else []


def hash_run(connection: Connection, run_number: int, run_row: Sequence[Any]) -> RunContents:
    """Counts and hashes a run; `run_row` is its row without the number."""
    run_hash = RunHash(run_row)
    for table in RUN_TABLES:
        for rows in iter_run_rows(connection, table, run_number):
            run_hash.add(table, rows)
    return run_hash.to_contents()


def iter_entries(connection: Connection) -> Iterator[ChangeEntry]:
    """Yields all changes with their values.

    Raises:
        StoreFailed: A value is missing or damaged.
    """
    all_columns = [*(schema.changes.c[name] for name in ChangeEntry._fields), schema.changes.c.body]
    for rows in iter_chunks(connection, all_columns, [schema.changes.c.seq]):
        for *columns, blob_hash in rows:
            entry = ChangeEntry(*columns)
            yield entry if blob_hash is None else entry._replace(value=_load_value(connection, entry, blob_hash))


def _load_value(connection: Connection, entry: ChangeEntry, sha256: str) -> str:
    row = connection.execute(select(schema.blobs).where(schema.blobs.c.sha256 == sha256)).one_or_none()
    if row is None or entry.value is not None or not is_intact(Blob(*row)):
        raise errors.StoreFailed(f"The value of change {entry.seq} is damaged. Restore a backup.")
    return Blob(*row).decompress().decode()


def iter_blobs(connection: Connection) -> Iterator[Sequence[Blob]]:
    """Yields all blobs in chunks."""
    for rows in iter_chunks(connection, list(schema.blobs.c), [schema.blobs.c.sha256], size=BLOB_CHUNK):
        yield [Blob(*row) for row in rows]


def is_intact(blob: Blob) -> bool:
    """Returns whether a blob matches its hash."""
    try:
        content = blob.decompress()
        return hashlib.sha256(content).hexdigest() == blob.sha256 and len(content) == blob.size
    except (zlib.error, TypeError):  # SQLite allows text in a column of bytes
        return False


def has_streams(connection: Connection) -> bool:
    return inspect(connection).has_table(event_streams.moments.name)


def iter_stream_rows(connection: Connection) -> Iterator[Sequence[Any]]:
    """Yields the rows of all event streams in chunks; the first column is the number."""
    if has_streams(connection):
        yield from iter_chunks(connection, list(event_streams.moments.c), [event_streams.moments.c.number])


def find_damage(connection: Connection, on_run: Callable[[RunContents], None] = lambda run: None) -> Sequence[str]:
    """Returns descriptions of missing or damaged rows of runs and blobs."""
    problems = list[str]()
    for run_number, *run_row in list_run_rows(connection):
        contents = hash_run(connection, run_number, run_row)
        reader = seals.SealReader(connection, run_number)
        on_run(contents._replace(unchained=reader.count_unchained(seals.RECORDS, contents.records)))
        problems += _find_missing_rows(connection, run_number, contents)
        problems += [
            f"Run {contents.run}: {change}." for change in _find_changes(connection, run_number, run_row, reader)
        ]
    problems += seals.find_strays(connection)
    for column in (schema.candidates.c.is_draft, schema.blobs.c.is_compressed):
        number = type_coerce(column, Integer) if connection.dialect.name == "sqlite" else cast(column, Integer)
        if connection.execute(select(column).where(number.not_in([0, 1])).limit(1)).first() is not None:
            problems.append(f"Table {column.table.name} has a value other than true and false in {column.name}.")
    for blobs in iter_blobs(connection):
        problems += [f"Blob {blob.sha256} is damaged." for blob in blobs if not is_intact(blob)]
    return problems


def _find_missing_rows(connection: Connection, run_number: int, contents: RunContents) -> Iterator[str]:
    seqs = select(schema.records.c.seq).where(schema.records.c.run == run_number)
    last = connection.execute(seqs.order_by(schema.records.c.seq.desc()).limit(1)).scalar() or 0
    if last != contents.records:
        yield f"Run {contents.run} has {contents.records} records, but the last one has number {last}."
    missing = select(schema.candidates.c.step).where(
        schema.candidates.c.run == run_number, schema.candidates.c.seq.not_in(seqs)
    )
    if connection.execute(missing.limit(1)).first() is not None:
        yield f"Run {contents.run} has candidates whose records are missing."


def _find_changes(
    connection: Connection, run_number: int, run_row: Sequence[Any], reader: seals.SealReader
) -> Iterator[str]:
    """Yields changes of sealed rows, and of the rows of candidates, which are derived from the records."""
    yield from reader.find_changes(seals.RUN, [(0, *run_row)])
    commands = itertools.chain.from_iterable(iter_run_rows(connection, schema.commands, run_number))
    yield from reader.find_changes(seals.COMMANDS, commands)
    records = itertools.chain.from_iterable(iter_run_rows(connection, schema.records, run_number))
    yield from reader.find_changes(seals.RECORDS, map(seals.order_record, records))
    try:
        records = itertools.chain.from_iterable(iter_run_rows(connection, schema.records, run_number))
        expected = derive_columns(run_number, records, lambda sha256: _load_blob(connection, sha256))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, errors.AtollError) as error:
        yield f"its candidates cannot be derived from its records ({error})"
        return
    stored = {
        tuple(row[:3]): tuple(row[3:])
        for rows in iter_run_rows(connection, schema.candidates, run_number)
        for row in rows
    }
    changed = [position for position in {**expected, **stored} if expected.get(position) != stored.get(position)]
    if changed:
        step, is_draft, k = changed[0]
        yield f"{len(changed)} candidates differ from their records, first {step}.{'d' if is_draft else ''}{k}"


def _load_blob(connection: Connection, sha256: str) -> bytes:
    row = connection.execute(select(schema.blobs).where(schema.blobs.c.sha256 == sha256)).one_or_none()
    if row is None:
        raise errors.StoreFailed(f"blob {sha256} is missing")
    return Blob(*row).decompress()


type OnProgress = Callable[[str], None]


def copy_store(source: Database, target: Database, on_progress: OnProgress = lambda message: None) -> StoreContents:
    """Copies all runs, changes, streams and blobs in one transaction, and verifies the copy before the commit.

    The source is read from a snapshot; runs may write meanwhile. Memory is bounded. Runs and streams are added to
    those of the target. Changes form one chain, so the target's chain must be empty or the beginning of the source's.

    Args:
        source: Store to read.
        target: Store to write.
        on_progress: Called with a message after each part.

    Raises:
        SetupError: Both are the same store, or their contents conflict.
        StoreFailed: The copy differs; the target is unchanged.
        ChainBroken: The change log of the source was modified.
    """
    if source.identity == target.identity and source.engine.dialect.name == target.engine.dialect.name:
        raise errors.SetupError(f"{source.name} and {target.name} are the same store. Pass two different stores.")
    with source.begin_read() as connection:
        with_streams = has_streams(connection)
        has_leases = inspect(connection).has_table(leases.migrants.name)
    if with_streams:
        event_streams.create_table(target)
    if has_leases:
        with target.begin_write(GLOBAL_LOCK) as connection:
            leases.metadata.create_all(connection)
    seals.create_table(target)
    with source.begin_snapshot() as old, target.begin_write(RUNS_LOCK, CHANGES_TOPIC) as new:
        _check_conflicts(old, new, target.name)
        num_blobs = _copy_blobs(old, new)
        on_progress(f"{num_blobs:,} blobs")
        runs = list[RunContents]()
        for run_number, *run_row in list_run_rows(old):
            runs.append(_copy_run(old, target, new, run_number, run_row))
            if has_leases:
                _copy_leases(old, new, run_number, run_row[0])
            on_progress("run {}: {:,} records, {:,} candidates, {:,} commands, {}".format(*runs[-1]))
        changes = _copy_changes(old, target, new)
        on_progress(f"{changes.seq:,} changes, ending in {changes.hash}")
        num_moments = _copy_streams(old, target, new) if with_streams else 0
    return StoreContents(runs, changes.seq, changes.hash, num_blobs, num_moments)


def _check_conflicts(old: Connection, new: Connection, name: str) -> None:
    ids = set(new.execute(select(schema.runs.c.id)).scalars())
    duplicates = [run.id for run in list_run_rows(old) if run.id in ids]
    if duplicates:
        raise errors.SetupError(
            f"{name} has {len(duplicates)} of these runs already, e.g. {duplicates[0]}. Copy to another store."
        )
    end = new.execute(select(func.max(schema.changes.c.seq))).scalar() or 0
    hashes = [
        connection.execute(select(schema.changes.c.hash).where(schema.changes.c.seq == end)).scalar()
        for connection in (old, new)
    ]
    if hashes[0] != hashes[1]:
        raise errors.SetupError(
            f"{name} has {end} other changes, and change logs cannot be merged. Copy to a store without changes."
        )
    streams = [
        set(connection.execute(select(event_streams.moments.c.stream).distinct()).scalars())
        for connection in (old, new)
        if has_streams(connection)
    ]
    if len(streams) == 2 and (duplicates := sorted(set.intersection(*streams))):
        raise errors.SetupError(f"{name} has a stream {duplicates[0]} already. Copy to another store.")


def _copy_blobs(old: Connection, new: Connection) -> int:
    total = 0
    for blobs in iter_blobs(old):
        insert_blobs(new, blobs)
        hashes = [blob.sha256 for blob in blobs]
        rows = new.execute(select(schema.blobs).where(schema.blobs.c.sha256.in_(hashes))).all()
        _require(len(rows) == len(blobs) and all(is_intact(Blob(*row)) for row in rows), "A blob")
        total += len(blobs)
    return total


def _copy_run(
    old: Connection, target: Database, new: Connection, run_number: int, run_row: Sequence[Any]
) -> RunContents:
    _insert_rows(target, new, schema.runs, [run_row])
    new_number: int = new.execute(select(schema.runs.c.number).where(schema.runs.c.id == run_row[0])).scalar_one()
    run_hash = RunHash(run_row)
    for table in RUN_TABLES:
        for rows in iter_run_rows(old, table, run_number):
            run_hash.add(table, rows)
            _insert_rows(target, new, table, [(new_number, *row) for row in rows])
    seals.copy_seals(old, new, run_number, new_number)
    copied = run_hash.to_contents()
    new_row = new.execute(select(schema.runs).where(schema.runs.c.number == new_number)).one()
    _require(hash_run(new, new_number, new_row[1:]) == copied, f"Run {copied.run}")
    return copied


def _copy_leases(old: Connection, new: Connection, run_number: int, run_id: str) -> None:
    """Copies the islands and the usage of a shared run, without owners."""
    new_number = new.execute(select(schema.runs.c.number).where(schema.runs.c.id == run_id)).scalar_one()
    reset_values = {"run": new_number, "owner": None, "expires": 0.0}
    for table in (leases.leases, leases.accounts, leases.migrants):
        columns = [column for column in table.c if column.name != "number"]
        overrides = {name: value for name, value in reset_values.items() if name in table.c}
        query = select(*columns).where(table.c.run == run_number).order_by(*table.primary_key)
        if rows := [{**row, **overrides} for row in old.execute(query).mappings()]:
            new.execute(insert(table), rows)


def _copy_changes(old: Connection, target: Database, new: Connection) -> audit.AuditReport:
    end = new.execute(select(func.max(schema.changes.c.seq))).scalar() or 0
    columns, key = list(schema.changes.c), [schema.changes.c.seq]
    for rows in iter_chunks(old, columns, key, schema.changes.c.seq > end):
        _insert_rows(target, new, schema.changes, rows)
    report = audit.verify(iter_entries(new))
    _require(report == audit.verify(iter_entries(old)), "The change log")
    return report


def _copy_streams(old: Connection, target: Database, new: Connection) -> int:
    source_hash, target_hash = RowHash(), RowHash()
    last_number = new.execute(select(func.max(event_streams.moments.c.number))).scalar() or 0
    for rows in iter_stream_rows(old):
        unnumbered = [tuple(row)[1:] for row in rows]
        source_hash.add(unnumbered)
        _insert_rows(target, new, event_streams.moments, unnumbered)
    for rows in iter_stream_rows(new):
        target_hash.add(tuple(row)[1:] for row in rows if row[0] > last_number)
    _require(source_hash.hexdigest() == target_hash.hexdigest(), "A stream")
    return source_hash.num_rows


def _insert_rows(target: Database, new: Connection, table: Table, rows: Sequence[Sequence[Any]]) -> None:
    """Inserts rows; those without the number column get new numbers."""
    columns = [column.name for column in table.c][len(table.c) - len(rows[0]) :]
    target.dialect.bulk_insert(new.connection.cursor(), table.name, columns, rows)


def _require(is_equal: bool, subject: str) -> None:
    if not is_equal:
        raise errors.StoreFailed(f"{subject} differs in the copy. Nothing was copied. Run 'atoll store check'.")
