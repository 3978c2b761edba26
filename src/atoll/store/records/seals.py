"""Seals: a hash chain over the rows of a run, one seal per commit, so that a changed row is found.

    hash = SHA-256(hash of the seal before, rows of the commit)

The chain of a run starts with its first commit since this table exists; older rows are not chained. A person
who changes rows could also compute a new chain, unless its last hash, which `atoll store check` prints, was kept
elsewhere.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Column, Connection, MetaData, Table, insert, inspect, select

from atoll.store.database import schema
from atoll.store.database.database import GLOBAL_LOCK, Database
from atoll.store.database.schema import HASH, INTEGER, STRING

RECORDS, COMMANDS, RUN = "records", "commands", "run"  # parts of a run, each with its own chain

metadata = MetaData()
seals = Table(
    "seals",
    metadata,
    Column("run", INTEGER, primary_key=True),
    Column("part", STRING, primary_key=True),
    Column("last", INTEGER, primary_key=True),
    Column("first", INTEGER, nullable=False),
    Column("hash", HASH, nullable=False),
    sqlite_with_rowid=False,  # one tree, so that a commit writes one page more instead of two
)
_seals = seals.c


def create_table(database: Database) -> None:
    """Creates the table in a store of an earlier version."""
    with database.begin_read() as connection:
        if inspect(connection).has_table(seals.name):
            return
    with database.begin_write(GLOBAL_LOCK) as connection:
        metadata.create_all(connection)


def order_record(row: Sequence[Any]) -> Sequence[Any]:
    """Returns the columns of a record as `compute_hash` expects them: the time before the text."""
    seq, kind, step, island, text, links, written_at = row
    return seq, kind, step, island, written_at, text, links


def compute_hash(previous: str, rows: Iterable[Sequence[Any]]) -> str:
    """Returns the hash of a commit; the last two columns of a row are its long text and the links."""
    parts = [previous]
    for *short, text, links in rows:
        parts += (f"{short!r}{len(text)}{links!r}", text)
    joined = "".join(parts)
    return hashlib.sha256(joined.encode("utf-8", "backslashreplace")).hexdigest()


def find_last_hash(connection: Connection, run_number: int, part: str) -> str:
    """Returns the hash of the last seal of a part; an empty text if there is none."""
    query = select(_seals.hash).where(_seals.run == run_number, _seals.part == part)
    return connection.execute(query.order_by(_seals.last.desc()).limit(1)).scalar() or ""


def add_seal(connection: Connection, run_number: int, part: str, rows: Sequence[Sequence[Any]]) -> None:
    """Seals rows whose first column is their number, inside the transaction that wrote them."""
    new_hash = compute_hash(find_last_hash(connection, run_number, part), rows)
    values = {"run": run_number, "part": part, "last": rows[-1][0], "first": rows[0][0], "hash": new_hash}
    connection.execute(insert(seals), values)


class SealReader:
    """Reads the seals of one run; for `check_rows`."""

    def __init__(self, connection: Connection, run_number: int) -> None:
        query = select(_seals.part, _seals.first, _seals.last, _seals.hash).where(_seals.run == run_number)
        has_table = inspect(connection).has_table(seals.name)
        rows = connection.execute(query.order_by(_seals.part, _seals.last)).all() if has_table else []
        # SQLite stores any type in any column.
        self._rows = [row for row in rows if isinstance(row.first, int) and isinstance(row.last, int)]
        self._has_invalid = len(self._rows) < len(rows)
        self._parts = {seal.part for seal in self._rows}
        self._is_chained = RUN in self._parts or any((seal.part, seal.first) == (RECORDS, 1) for seal in self._rows)

    def find_changes(self, part: str, rows: Iterable[Sequence[Any]]) -> Iterator[str]:
        """Yields a description of each commit whose rows or seal changed."""
        if self._has_invalid and part == RUN:
            yield "a seal has an invalid number"
        expected = [seal for seal in self._rows if seal.part == part]
        iterator, previous, row = iter(rows), "", None
        row = next(iterator, None)
        if not expected:
            if row is not None and self._is_chained:  # the seals of all parts begin with the run
                yield f"its {part if part != RUN else 'configuration'} lost the seals"
            return
        while row is not None and row[0] < expected[0].first:
            row = next(iterator, None)  # not chained
        for _, first, last, stored_hash in expected:
            covered = []
            while row is not None and row[0] <= last:
                covered.append(row)
                row = next(iterator, None)
            numbers = [item[0] for item in covered]
            # The length comes first: a range of a damaged seal could fill the memory.
            is_complete = len(numbers) == last - first + 1 and numbers == list(range(first, last + 1))
            if not is_complete or _compute_safely(previous, covered) != stored_hash:
                yield f"{part} {first} to {last} were changed" if part != RUN else "its configuration was changed"
            previous = stored_hash
        if row is not None:
            yield f"{part} from {row[0]} on are not sealed"

    def count_unchained(self, part: str, num_rows: int) -> int:
        """Returns the number of rows that an earlier version wrote without a seal."""
        first = next((seal.first for seal in self._rows if seal.part == part), None)
        return num_rows if first is None else max(first - 1, 0)


def find_strays(connection: Connection) -> Iterator[str]:
    """Yields a description if there are seals of no run or of an unknown part."""
    if inspect(connection).has_table(seals.name):
        runs = select(schema.runs.c.number)
        stray = _seals.run.not_in(runs) | _seals.part.not_in((RECORDS, COMMANDS, RUN))
        if connection.execute(select(_seals.run).where(stray).limit(1)).first() is not None:
            yield "A seal belongs to no run."


def _compute_safely(previous: str, rows: Sequence[Sequence[Any]]) -> str:
    try:
        return compute_hash(previous, rows)
    except (TypeError, AttributeError):  # a column has another type
        return ""


def copy_seals(old: Connection, new: Connection, run_number: int, new_number: int) -> None:
    """Copies the seals of a run to another store."""
    if inspect(old).has_table(seals.name):
        query = select(seals).where(_seals.run == run_number).order_by(_seals.part, _seals.last)
        if rows := [{**row, "run": new_number} for row in old.execute(query).mappings()]:
            new.execute(insert(seals), rows)
