"""A store copied into another one, of either kind: all of it, or nothing."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, Table, func, insert, inspect, select

from atoll import errors
from atoll.store import audit, contents, leases, schema, timeline
from atoll.store.blobs import keep
from atoll.store.changes import CHANGES
from atoll.store.contents import Contents, Kept
from atoll.store.database import EVERYTHING, Database
from atoll.store.packing import Body
from atoll.store.runs import RUNS

type Tell = Callable[[str], None]


def copy(source: Database, target: Database, tell: Tell = lambda sentence: None) -> Contents:
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
    if source.place == target.place and source.engine.dialect.name == target.engine.dialect.name:
        raise errors.SetupError(f"{source.name} and {target.name} are one and the same store: name two.")
    with source.reading() as connection:
        has_streams = contents.has_streams(connection)
        has_leases = inspect(connection).has_table(leases.migrants.name)
    if has_streams:
        timeline.prepare(target)
    if has_leases:
        with target.writing(EVERYTHING) as connection:
            leases.metadata.create_all(connection)
    with source.snapshot() as old, target.writing(RUNS, CHANGES) as new:
        _check_clashes(old, new, target.name)
        num_blobs = _copy_bodies(old, new)
        tell(f"{num_blobs:,} bodies")
        runs = list[Kept]()
        for number, *run in contents.runs(old):
            runs.append(_copy_run(old, target, new, number, run))
            if has_leases:
                _copy_shares(old, new, number, run[0])
            tell("run {}: {:,} records, {:,} candidates, {:,} commands, {}".format(*runs[-1]))
        changes = _copy_changes(old, target, new)
        tell(f"{changes.seq:,} changes, ending in {changes.hash}")
        num_moments = _copy_moments(old, target, new) if has_streams else 0
    return Contents(runs, changes.seq, changes.hash, num_blobs, num_moments)


def _check_clashes(old: Connection, new: Connection, name: str) -> None:
    ids = set(new.execute(select(schema.runs.c.id)).scalars())
    both = [run.id for run in contents.runs(old) if run.id in ids]
    if both:
        raise errors.SetupError(
            f"{name} has {len(both)} of these runs already, {both[0]} first: copy into a store that has none of them."
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
        set(each.execute(select(timeline.moments.c.stream).distinct()).scalars())
        for each in (old, new)
        if contents.has_streams(each)
    ]
    if len(streams) == 2 and (both := sorted(set.intersection(*streams))):
        raise errors.SetupError(f"{name} has a stream {both[0]} already: copy into a store without it.")


def _copy_bodies(old: Connection, new: Connection) -> int:
    total = 0
    for some in contents.bodies(old):
        keep(new, some)
        wanted = [each.sha256 for each in some]
        found = new.execute(select(schema.blobs).where(schema.blobs.c.sha256.in_(wanted))).all()
        _demand(len(found) == len(some) and all(contents.is_whole(Body(*row)) for row in found), "A body")
        total += len(some)
    return total


def _copy_run(old: Connection, target: Database, new: Connection, number: int, run: Sequence[Any]) -> Kept:
    _put(target, new, schema.runs, [run])
    there: int = new.execute(select(schema.runs.c.number).where(schema.runs.c.id == run[0])).scalar_one()
    tally = contents.Tally(run)
    for table in contents.OF_RUN:
        for rows in contents.rows_of(old, table, number):
            tally.take(table, rows)
            _put(target, new, table, [(there, *row) for row in rows])
    made = tally.kept()
    again = contents.kept(new, there, new.execute(select(schema.runs).where(schema.runs.c.number == there)).one()[1:])
    _demand(again == made, f"Run {made.run}")
    return made


def _copy_shares(old: Connection, new: Connection, number: int, id: str) -> None:
    """Copies how far the islands of a shared run are and what was used; here nobody leads them yet."""
    there = new.execute(select(schema.runs.c.number).where(schema.runs.c.id == id)).scalar_one()
    free = {"run": there, "owner": None, "expires": 0.0}
    for table in (leases.leases, leases.accounts, leases.migrants):
        columns = [column for column in table.c if column.name != "number"]
        own = {name: value for name, value in free.items() if name in table.c}
        query = select(*columns).where(table.c.run == number).order_by(*table.primary_key)
        if rows := [{**row, **own} for row in old.execute(query).mappings()]:
            new.execute(insert(table), rows)


def _copy_changes(old: Connection, target: Database, new: Connection) -> audit.Report:
    end = new.execute(select(func.max(schema.changes.c.seq))).scalar() or 0
    columns, key = list(schema.changes.c), [schema.changes.c.seq]
    for rows in contents.portions(old, columns, key, schema.changes.c.seq > end):
        _put(target, new, schema.changes, rows)
    found = audit.verify(contents.entries(new))
    _demand(found == audit.verify(contents.entries(old)), "The log of changes")
    return found


def _copy_moments(old: Connection, target: Database, new: Connection) -> int:
    total, again = contents.Digest(), contents.Digest()
    last = new.execute(select(func.max(timeline.moments.c.number))).scalar() or 0
    for rows in contents.moments(old):
        plain = [tuple(row)[1:] for row in rows]
        total.take(plain)
        _put(target, new, timeline.moments, plain)
    for rows in contents.moments(new):
        again.take(tuple(row)[1:] for row in rows if row[0] > last)
    _demand(total.value() == again.value(), "A stream")
    return total.num_rows


def _put(target: Database, new: Connection, table: Table, rows: Sequence[Sequence[Any]]) -> None:
    """Adds rows; those without a number get the next ones."""
    columns = [column.name for column in table.c][len(table.c) - len(rows[0]) :]
    target.dialect.load(new.connection.cursor(), table.name, columns, rows)


def _demand(is_so: bool, what: str) -> None:
    if not is_so:
        raise errors.StoreFailed(f"{what} did not arrive as it was, so nothing was copied: check both stores.")
