"""The records of a run as a list that can be looked through: by pages from either end, by kind, by words.

For those who only look, while somebody else writes: every question is short, and no more than a page is held.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Select, func, select

from atoll import errors
from atoll.store.database import schema
from atoll.store.database.database import Database
from atoll.store.records.blobs import Blobs
from atoll.store.records.json_codec import unpack
from atoll.store.store import Store

ESCAPE = "\\"

_records = schema.records.c


class NumberedRecord(NamedTuple):
    """One record with its number in the run.

    Attributes:
        data: JSON text, without the texts that stand apart.
        links: What stands apart, as JSON; None: nothing.
    """

    seq: int
    kind: str
    step: int
    island: int
    data: str
    links: str | None


class RecordSearchResult(NamedTuple):
    """What a search came upon.

    Attributes:
        last: The number up to which it looked, in its direction.
    """

    records: Sequence[NumberedRecord]
    last_seq: int


class RecordQueries:
    """The records of one run, by their numbers; the first is 1, and none is missing.

    Raises:
        NotFound: There is no such run.
    """

    def __init__(self, store: Store, run_id: str) -> None:
        self._database, self._blobs = store.database, Blobs(store.database)
        self.run_number = get_run_number(store.database, run_id)

    def get_end(self) -> int:
        """Returns the number of the newest record; 0: there is none."""
        query = select(func.max(_records.seq)).where(_records.run == self.run_number)
        with self._database.begin_read() as connection:
            return connection.execute(query).scalar() or 0

    def list_after(self, seq: int, limit: int) -> Sequence[NumberedRecord]:
        """Returns the next records, oldest first."""
        return self._fetch(_select(self.run_number).where(_records.seq > seq).order_by(_records.seq).limit(limit))

    def list_before(self, seq: int, limit: int) -> Sequence[NumberedRecord]:
        """Returns the records before one, newest first."""
        return self._fetch(
            _select(self.run_number).where(_records.seq < seq).order_by(_records.seq.desc()).limit(limit)
        )

    def list_by_seq(self, seqs: Sequence[int]) -> Sequence[NumberedRecord]:
        """Returns records by their numbers, in the order in which they were written."""
        records: list[NumberedRecord] = []
        for start in range(0, len(seqs), 500):  # every database takes so many
            batch = seqs[start : start + 500]
            records += self._fetch(_select(self.run_number).where(_records.seq.in_(batch)))
        return sorted(records)

    def load_data(self, record: NumberedRecord) -> dict[str, Any]:
        """Returns the data of a record, with the texts that stand apart.

        Raises:
            StoreFailed: It is not what was written.
        """
        return unpack(record.data, record.links, self._blobs.get)

    def list_by_kind(self, kinds: Sequence[str], first: int, last: int, limit: int) -> Sequence[NumberedRecord]:
        """Returns the records of some kinds between two numbers, both included, newest first."""
        query = _select(self.run_number).where(_records.seq >= first, _records.seq <= last, _records.kind.in_(kinds))
        return self._fetch(query.order_by(_records.seq.desc()).limit(limit))

    def list_rows(self, kinds: Sequence[str], first: int, last: int) -> Sequence[tuple[str, int, int, str]]:
        """Returns kind, step, island and data of the records of some kinds between two numbers, oldest first."""
        query = select(_records.kind, _records.step, _records.island, _records.data).where(
            _records.run == self.run_number
        )
        query = query.where(_records.seq >= first, _records.seq <= last, _records.kind.in_(kinds)).order_by(
            _records.seq
        )
        with self._database.begin_read() as connection:
            rows: Sequence[Any] = connection.execute(query).all()
        return rows

    def count_by_kind(self, first: int, last: int) -> Mapping[str, int]:
        """Returns how many records there are of each kind between two numbers, both included."""
        query = select(_records.kind, func.count()).where(
            _records.run == self.run_number, _records.seq >= first, _records.seq <= last
        )
        with self._database.begin_read() as connection:
            return dict(tuple(row) for row in connection.execute(query.group_by(_records.kind)).all())

    def list_seqs_by_kind(self, kinds: Sequence[str], first: int, last: int) -> Mapping[str, Sequence[int]]:
        """Returns the numbers of the records of some kinds between two numbers, both included, by kind."""
        query = select(_records.seq, _records.kind).where(_records.run == self.run_number, _records.kind.in_(kinds))
        query = query.where(_records.seq >= first, _records.seq <= last).order_by(_records.seq)
        seqs: dict[str, list[int]] = {kind: [] for kind in kinds}
        with self._database.begin_read() as connection:
            for seq, kind in connection.execute(query).all():
                seqs[kind].append(seq)
        return seqs

    def search(self, text: str, before: int, span: int, limit: int, kinds: Sequence[str] = ()) -> RecordSearchResult:
        """Looks for a text in the records before one, newest first, and no further back than `span` of them."""
        first = max(1, before - span)
        query = _select(self.run_number).where(_records.seq < before, _records.seq >= first, match_text(text))
        query = query.where(_records.kind.in_(kinds)) if kinds else query
        records = self._fetch(query.order_by(_records.seq.desc()).limit(limit))
        return RecordSearchResult(records, records[-1].seq if len(records) == limit else first)

    def iter_step(self, step: int, kind: str, nearby_seq: int, span: int = 20_000) -> Iterator[NumberedRecord]:
        """Yields the records of a kind that belong to a step, looked for around a record of that step."""
        query = _select(self.run_number).where(_records.seq > nearby_seq - span, _records.seq < nearby_seq + span)
        yield from self._fetch(query.where(_records.step == step, _records.kind == kind).order_by(_records.seq))

    def _fetch(self, query: Select[Any]) -> Sequence[NumberedRecord]:
        return [NumberedRecord(*row) for row in self._database.fetch_rows(query)]


def match_text(text: str) -> Any:
    """Returns the condition that a record's data hold a text, as it stands in JSON; letters of either case fit."""
    pattern = text.replace(ESCAPE, ESCAPE * 2).replace("%", f"{ESCAPE}%").replace("_", f"{ESCAPE}_")
    return _records.data.ilike(f"%{pattern}%", escape=ESCAPE)


def get_run_number(database: Database, run_id: str) -> int:
    """Returns the number under which the tables know a run.

    Raises:
        NotFound: There is no such run.
    """
    with database.begin_read() as connection:
        query = select(schema.runs.c.number).where(schema.runs.c.id == run_id)
        run_number: int | None = connection.execute(query).scalar()
    if run_number is None:
        raise errors.NotFound(f"There is no run {run_id} in {database.name}.")
    return run_number


def _select(run_number: int) -> Select[Any]:
    columns = (_records.seq, _records.kind, _records.step, _records.island, _records.data, _records.links)
    return select(*columns).where(_records.run == run_number)
