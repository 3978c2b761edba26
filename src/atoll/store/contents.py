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
from atoll.store.entry import Entry
from atoll.store.packing import Body

CHUNK = 1000  # rows in memory at a time; what is long stands among the bodies
BODIES = 20

# What belongs to a run, by the column that names the run, in the order of the rest of its key.
OF_RUN = (schema.records, schema.candidates, schema.commands)


class Kept(NamedTuple):
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
class Contents:
    """What a store holds in all; `hash` is that of the last change."""

    runs: Sequence[Kept] = ()
    changes: int = 0
    hash: str = ""
    blobs: int = 0
    moments: int = 0


class Digest:
    """Adds up rows to a number and a hash."""

    def __init__(self) -> None:
        self.num_rows, self._sum = 0, hashlib.sha256()

    def take(self, rows: Iterable[Sequence[Any]]) -> None:
        for row in rows:
            self.num_rows += 1
            self._sum.update(repr(tuple(row)).encode())

    def value(self) -> str:
        return self._sum.hexdigest()


class Tally:
    """Adds up the rows of one run, table by table."""

    def __init__(self, run: Sequence[Any]) -> None:
        self._run, self._digest, self._counts = str(run[0]), Digest(), Counter[str]()
        self._digest.take([run])

    def take(self, table: Table, rows: Sequence[Sequence[Any]]) -> None:
        self._digest.take(rows)
        self._counts[table.name] += len(rows)

    def kept(self) -> Kept:
        records, candidates, commands = (self._counts[table.name] for table in OF_RUN)
        return Kept(self._run, records, candidates, commands, self._digest.value())


def runs(connection: Connection) -> Sequence[Any]:
    """Returns all rows of `runs`, oldest first."""
    return connection.execute(select(schema.runs).order_by(schema.runs.c.number)).all()


def rows_of(connection: Connection, table: Table, run: int) -> Iterator[Sequence[Any]]:
    """Yields the rows of a run in portions, without its number."""
    key = [column for column in table.primary_key if column.name != "run"]
    columns = [column for column in table.c if column.name != "run"]
    return portions(connection, columns, key, table.c.run == run)


def portions(
    connection: Connection,
    columns: Sequence[Any],
    key: Sequence[ColumnElement[Any]],
    where: ColumnElement[bool] | None = None,
    size: int = CHUNK,
) -> Iterator[Sequence[Any]]:
    """Yields rows in the order of a key, which is among the columns, so many at a time."""
    query = select(*columns).order_by(*key).limit(size)
    query = query if where is None else query.where(where)
    places = [list(columns).index(each) for each in key]
    found = connection.execute(query).all()
    while found:
        yield found
        last = [found[-1][place] for place in places]
        found = connection.execute(query.where(tuple_(*key) > tuple_(*last))).all() if len(found) == size else []


def kept(connection: Connection, number: int, run: Sequence[Any]) -> Kept:
    """Returns what there is of a run; `run` is its row without its number."""
    tally = Tally(run)
    for table in OF_RUN:
        for rows in rows_of(connection, table, number):
            tally.take(table, rows)
    return tally.kept()


def entries(connection: Connection) -> Iterator[Entry]:
    """Yields all changes, with their values.

    Raises:
        StoreFailed: A value is lost or damaged.
    """
    columns = [*(schema.changes.c[name] for name in Entry._fields), schema.changes.c.body]
    for rows in portions(connection, columns, [schema.changes.c.seq]):
        for *fields, body in rows:
            made = Entry(*fields)
            yield made if body is None else made._replace(value=_value(connection, made, body))


def _value(connection: Connection, change: Entry, sha256: str) -> str:
    found = connection.execute(select(schema.blobs).where(schema.blobs.c.sha256 == sha256)).one_or_none()
    if found is None or change.value is not None or not is_whole(Body(*found)):
        raise errors.StoreFailed(f"The value of change {change.seq} is damaged: use a copy that is whole.")
    return Body(*found).open().decode()


def bodies(connection: Connection) -> Iterator[Sequence[Body]]:
    """Yields all bodies, a few at a time."""
    for rows in portions(connection, list(schema.blobs.c), [schema.blobs.c.sha256], size=BODIES):
        yield [Body(*row) for row in rows]


def is_whole(body: Body) -> bool:
    """Says whether a body is what its hash says."""
    try:
        return hashlib.sha256(body.open()).hexdigest() == body.sha256
    except (zlib.error, TypeError):  # SQLite may hold a text where bytes belong
        return False


def has_streams(connection: Connection) -> bool:
    return inspect(connection).has_table(timeline.moments.name)


def moments(connection: Connection) -> Iterator[Sequence[Any]]:
    """Yields what streams hold in portions: the number of each row, then the rest."""
    if has_streams(connection):
        yield from portions(connection, list(timeline.moments.c), [timeline.moments.c.number])


def check(connection: Connection, on_run: Callable[[Kept], None] = lambda run: None) -> Sequence[str]:
    """Looks for what is lost or damaged among runs and bodies, and returns it in words."""
    wrong = list[str]()
    for number, *run in runs(connection):
        found = kept(connection, number, run)
        on_run(found)
        wrong += _holes(connection, number, found)
    for some in bodies(connection):
        wrong += [f"The body {each.sha256} is damaged." for each in some if not is_whole(each)]
    return wrong


def _holes(connection: Connection, number: int, found: Kept) -> Iterator[str]:
    seqs = select(schema.records.c.seq).where(schema.records.c.run == number)
    last = connection.execute(seqs.order_by(schema.records.c.seq.desc()).limit(1)).scalar() or 0
    if last != found.records:
        yield f"Run {found.run} has {found.records} records, and its last is number {last}."
    lost = select(schema.candidates.c.step).where(
        schema.candidates.c.run == number, schema.candidates.c.seq.not_in(seqs)
    )
    if connection.execute(lost.limit(1)).first() is not None:
        yield f"Run {found.run} has candidates without the records that hold them."
