"""Read-only queries of the records of a run: pages, kinds, text search. All queries are short."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Select, func, select

from atoll.store.database import schema
from atoll.store.records.blobs import Blobs
from atoll.store.records.journal import fetch_last_seq
from atoll.store.records.json_codec import unpack
from atoll.store.store import Runs, Store

ESCAPE = "\\"

_records = schema.records.c


class NumberedRecord(NamedTuple):
    """One record with its sequence number.

    Attributes:
        data: JSON text, without long texts.
        links: Places and hashes of the long texts, as JSON; None: none.
        at: Time of the commit in seconds since 1970; None: written by version 0.1.
    """

    seq: int
    kind: str
    step: int
    island: int
    data: str
    links: str | None
    at: float | None = None


class RecordSearchResult(NamedTuple):
    """Result of a search.

    Attributes:
        last_seq: Sequence number at which the search stopped.
    """

    records: Sequence[NumberedRecord]
    last_seq: int


class RecordQueries:
    """Queries the records of one run; sequence numbers start at 1 without gaps.

    Raises:
        NotFound: The run does not exist.
    """

    def __init__(self, store: Store, run_id: str) -> None:
        self._database, self._blobs = store.database, Blobs(store.database)
        self.run_number = Runs(store.database).get_number(run_id)

    def get_end(self) -> int:
        """Returns the sequence number of the newest record; 0: none."""
        return fetch_last_seq(self._database, self.run_number)

    def list_after(self, seq: int, limit: int) -> Sequence[NumberedRecord]:
        """Returns the next records, oldest first."""
        return self._fetch(_select(self.run_number).where(_records.seq > seq).order_by(_records.seq).limit(limit))

    def list_before(self, seq: int, limit: int) -> Sequence[NumberedRecord]:
        """Returns the records before one, newest first."""
        query = _select(self.run_number).where(_records.seq < seq)
        return self._fetch(query.order_by(_records.seq.desc()).limit(limit))

    def list_by_seq(self, seqs: Sequence[int]) -> Sequence[NumberedRecord]:
        """Returns records by their sequence numbers, in order."""
        records: list[NumberedRecord] = []
        for start in range(0, len(seqs), 500):  # databases limit the number of parameters
            batch = seqs[start : start + 500]
            records += self._fetch(_select(self.run_number).where(_records.seq.in_(batch)))
        return sorted(records)

    def load_data(self, record: NumberedRecord) -> dict[str, Any]:
        """Returns the data of a record, with its long texts.

        Raises:
            StoreFailed: The record is damaged.
        """
        return unpack(record.data, record.links, self._blobs.get)

    def list_by_kind(self, kinds: Sequence[str], first: int, last: int, limit: int) -> Sequence[NumberedRecord]:
        """Returns the records of some kinds from `first` to `last`, newest first."""
        query = _select(self.run_number).where(_records.seq >= first, _records.seq <= last, _records.kind.in_(kinds))
        return self._fetch(query.order_by(_records.seq.desc()).limit(limit))

    def list_rows(
        self, kinds: Sequence[str], first: int, last: int
    ) -> Sequence[tuple[str, int, int, str, float | None]]:
        """Returns kind, iteration, island, data and time of some records from `first` to `last`, oldest first."""
        query = select(_records.kind, _records.step, _records.island, _records.data, _records.at)
        query = query.where(_records.run == self.run_number, _records.kind.in_(kinds))
        query = query.where(_records.seq >= first, _records.seq <= last)
        return self._database.fetch_rows(query.order_by(_records.seq))

    def count_by_kind(self, first: int, last: int) -> Mapping[str, int]:
        """Returns the number of records of each kind from `first` to `last`."""
        query = select(_records.kind, func.count()).where(
            _records.run == self.run_number, _records.seq >= first, _records.seq <= last
        )
        with self._database.begin_read() as connection:
            return dict(tuple(row) for row in connection.execute(query.group_by(_records.kind)).all())

    def list_seqs_by_kind(self, kinds: Sequence[str], first: int, last: int) -> Mapping[str, Sequence[int]]:
        """Returns the sequence numbers of the records of some kinds from `first` to `last`, by kind."""
        query = select(_records.seq, _records.kind).where(_records.run == self.run_number, _records.kind.in_(kinds))
        query = query.where(_records.seq >= first, _records.seq <= last).order_by(_records.seq)
        seqs: dict[str, list[int]] = {kind: [] for kind in kinds}
        with self._database.begin_read() as connection:
            for seq, kind in connection.execute(query).all():
                seqs[kind].append(seq)
        return seqs

    def search(self, text: str, before: int, span: int, limit: int, kinds: Sequence[str] = ()) -> RecordSearchResult:
        """Searches a text in the `span` records before one, newest first."""
        first = max(1, before - span)
        query = _select(self.run_number).where(_records.seq < before, _records.seq >= first, match_text(text))
        query = query.where(_records.kind.in_(kinds)) if kinds else query
        records = self._fetch(query.order_by(_records.seq.desc()).limit(limit))
        return RecordSearchResult(records, records[-1].seq if len(records) == limit else first)

    def iter_step(self, step: int, kind: str, nearby_seq: int, span: int = 20_000) -> Iterator[NumberedRecord]:
        """Yields the records of a kind of an iteration; searches `span` records around `nearby_seq`."""
        query = _select(self.run_number).where(_records.seq > nearby_seq - span, _records.seq < nearby_seq + span)
        yield from self._fetch(query.where(_records.step == step, _records.kind == kind).order_by(_records.seq))

    def _fetch(self, query: Select[Any]) -> Sequence[NumberedRecord]:
        return [NumberedRecord(*row) for row in self._database.fetch_rows(query)]


def match_text(text: str) -> Any:
    """Returns the condition that the JSON of a record contains a text, ignoring case."""
    pattern = text.replace(ESCAPE, ESCAPE * 2).replace("%", f"{ESCAPE}%").replace("_", f"{ESCAPE}_")
    return _records.data.ilike(f"%{pattern}%", escape=ESCAPE)


def _select(run_number: int) -> Select[Any]:
    columns = (_records.seq, _records.kind, _records.step, _records.island, _records.data, _records.links, _records.at)
    return select(*columns).where(_records.run == run_number)
