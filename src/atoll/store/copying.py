"""A store copied into another one, of either kind: all of it, or nothing."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, Table, func, insert, inspect, select

from atoll import errors
from atoll.store import audit, contents, leases, schema, timeline
from atoll.store.blobs import insert_blobs
from atoll.store.changes import CHANGES_TOPIC
from atoll.store.contents import StoreContents, RunContents
from atoll.store.database import GLOBAL_LOCK, Database
from atoll.store.packing import Blob
from atoll.store.runs import RUNS_LOCK

type OnProgress = Callable[[str], None]


def copy_store(source: Database, target: Database, on_progress: OnProgress = lambda message: None) -> StoreContents:
    """Copies all runs, changes, streams and bodies in one transaction, and reads all of it back before it commits.

    The source is read as it stands at one moment, also while runs write on. Memory stays bounded. Runs, and streams,
    are added to those of the target; changes are one chain, so that of the target must be the beginning of the
    source's, or empty.

    Args:
        tell: Hears what was done, sentence by sentence.

    Raises:
        SetupError: Both are the same store, or hold what cannot be put together.
        StoreFailed: What came out is not what went in; the target is as it was.
        ChainBroken: The changes of the source are not what was written.
    """
    if source.identity == target.identity and source.engine.dialect.name == target.engine.dialect.name:
        raise errors.SetupError(f"{source.name} and {target.name} are one and the same store: name two.")
    with source.begin_read() as connection:
        has_streams = contents.has_streams(connection)
        has_leases = inspect(connection).has_table(leases.migrants.name)
    if has_streams:
        timeline.create_table(target)
    if has_leases:
        with target.begin_write(GLOBAL_LOCK) as connection:
            leases.metadata.create_all(connection)
    with source.begin_snapshot() as old, target.begin_write(RUNS_LOCK, CHANGES_TOPIC) as new:
        _check_conflicts(old, new, target.name)
        num_blobs = _copy_blobs(old, new)
        on_progress(f"{num_blobs:,} bodies")
        runs = list[RunContents]()
        for run_number, *run_row in contents.list_run_rows(old):
            runs.append(_copy_run(old, target, new, run_number, run_row))
            if has_leases:
                _copy_leases(old, new, run_number, run_row[0])
            on_progress("run {}: {:,} records, {:,} candidates, {:,} commands, {}".format(*runs[-1]))
        changes = _copy_changes(old, target, new)
        on_progress(f"{changes.seq:,} changes, ending in {changes.hash}")
        num_moments = _copy_streams(old, target, new) if has_streams else 0
    return StoreContents(runs, changes.seq, changes.hash, num_blobs, num_moments)


def _check_conflicts(old: Connection, new: Connection, name: str) -> None:
    ids = set(new.execute(select(schema.runs.c.id)).scalars())
    duplicates = [run.id for run in contents.list_run_rows(old) if run.id in ids]
    if duplicates:
        raise errors.SetupError(
            f"{name} has {len(duplicates)} of these runs already, {duplicates[0]} first: copy into a store that has none of them."
        )
    end = new.execute(select(func.max(schema.changes.c.seq))).scalar() or 0
    hashes = [
        connection.execute(select(schema.changes.c.hash).where(schema.changes.c.seq == end)).scalar()
        for connection in (old, new)
    ]
    if hashes[0] != hashes[1]:
        raise errors.SetupError(
            f"{name} has {end} changes of its own, and two chains cannot become one: copy into a store without any."
        )
    streams = [
        set(connection.execute(select(timeline.moments.c.stream).distinct()).scalars())
        for connection in (old, new)
        if contents.has_streams(connection)
    ]
    if len(streams) == 2 and (duplicates := sorted(set.intersection(*streams))):
        raise errors.SetupError(f"{name} has a stream {duplicates[0]} already: copy into a store without it.")


def _copy_blobs(old: Connection, new: Connection) -> int:
    total = 0
    for blobs in contents.iter_blobs(old):
        insert_blobs(new, blobs)
        hashes = [blob.sha256 for blob in blobs]
        rows = new.execute(select(schema.blobs).where(schema.blobs.c.sha256.in_(hashes))).all()
        _require(len(rows) == len(blobs) and all(contents.is_intact(Blob(*row)) for row in rows), "A body")
        total += len(blobs)
    return total


def _copy_run(old: Connection, target: Database, new: Connection, run_number: int, run_row: Sequence[Any]) -> RunContents:
    _insert_rows(target, new, schema.runs, [run_row])
    new_number: int = new.execute(select(schema.runs.c.number).where(schema.runs.c.id == run_row[0])).scalar_one()
    run_hash = contents.RunHash(run_row)
    for table in contents.RUN_TABLES:
        for rows in contents.iter_run_rows(old, table, run_number):
            run_hash.add(table, rows)
            _insert_rows(target, new, table, [(new_number, *row) for row in rows])
    copied = run_hash.to_contents()
    reread = contents.hash_run(new, new_number, new.execute(select(schema.runs).where(schema.runs.c.number == new_number)).one()[1:])
    _require(reread == copied, f"Run {copied.run}")
    return copied


def _copy_leases(old: Connection, new: Connection, run_number: int, run_id: str) -> None:
    """Copies how far the islands of a shared run are and what was used; here nobody leads them yet."""
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
    for rows in contents.iter_chunks(old, columns, key, schema.changes.c.seq > end):
        _insert_rows(target, new, schema.changes, rows)
    report = audit.verify(contents.iter_entries(new))
    _require(report == audit.verify(contents.iter_entries(old)), "The log of changes")
    return report


def _copy_streams(old: Connection, target: Database, new: Connection) -> int:
    source_hash, target_hash = contents.RowHash(), contents.RowHash()
    last_number = new.execute(select(func.max(timeline.moments.c.number))).scalar() or 0
    for rows in contents.iter_stream_rows(old):
        unnumbered = [tuple(row)[1:] for row in rows]
        source_hash.add(unnumbered)
        _insert_rows(target, new, timeline.moments, unnumbered)
    for rows in contents.iter_stream_rows(new):
        target_hash.add(tuple(row)[1:] for row in rows if row[0] > last_number)
    _require(source_hash.hexdigest() == target_hash.hexdigest(), "A stream")
    return source_hash.num_rows


def _insert_rows(target: Database, new: Connection, table: Table, rows: Sequence[Sequence[Any]]) -> None:
    """Adds rows; those without a number get the next ones."""
    columns = [column.name for column in table.c][len(table.c) - len(rows[0]) :]
    target.dialect.bulk_insert(new.connection.cursor(), table.name, columns, rows)


def _require(is_equal: bool, subject: str) -> None:
    if not is_equal:
        raise errors.StoreFailed(f"{subject} did not arrive as it was, so nothing was copied: check both stores.")
