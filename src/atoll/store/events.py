"""The records of a run as a list that can be looked through: by pages from either end, by kind, by words.

For those who only look, while somebody else writes: every question is short, and no more than a page is held.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Select, func, select

from atoll import errors
from atoll.store import schema
from atoll.store.blobs import Blobs
from atoll.store.database import Database
from atoll.store.packing import unpack
from atoll.store.store import Store

ESCAPE = "\\"

_rows = schema.records.c


class Event(NamedTuple):
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


class Found(NamedTuple):
    """What a search came upon.

    Attributes:
        last: The number up to which it looked, in its direction.
    """

    events: Sequence[Event]
    last: int


class Events:
    """The records of one run, by their numbers; the first is 1, and none is missing.

    Raises:
        NotFound: There is no such run.
    """

    def __init__(self, kept: Store, run: str) -> None:
        self._database, self._blobs = kept.database, Blobs(kept.database)
        self.number = number(kept.database, run)

    def end(self) -> int:
        """Returns the number of the newest record; 0: there is none."""
        query = select(func.max(_rows.seq)).where(_rows.run == self.number)
        with self._database.reading() as connection:
            return connection.execute(query).scalar() or 0

    def after(self, seq: int, limit: int) -> Sequence[Event]:
        """Returns the next records, oldest first."""
        return self._fetch(_select(self.number).where(_rows.seq > seq).order_by(_rows.seq).limit(limit))

    def before(self, seq: int, limit: int) -> Sequence[Event]:
        """Returns the records before one, newest first."""
        return self._fetch(_select(self.number).where(_rows.seq < seq).order_by(_rows.seq.desc()).limit(limit))

    def at(self, seqs: Sequence[int]) -> Sequence[Event]:
        """Returns records by their numbers, in the order in which they were written."""
        found: list[Event] = []
        for start in range(0, len(seqs), 500):  # every database takes so many
            chosen = seqs[start : start + 500]
            found += self._fetch(_select(self.number).where(_rows.seq.in_(chosen)))
        return sorted(found)

    def whole(self, event: Event) -> dict[str, Any]:
        """Returns the data of a record, with the texts that stand apart.

        Raises:
            StoreFailed: It is not what was written.
        """
        return unpack(event.data, event.links, self._blobs.get)

    def of_kinds(self, kinds: Sequence[str], first: int, last: int, limit: int) -> Sequence[Event]:
        """Returns the records of some kinds between two numbers, both included, newest first."""
        here = _select(self.number).where(_rows.seq >= first, _rows.seq <= last, _rows.kind.in_(kinds))
        return self._fetch(here.order_by(_rows.seq.desc()).limit(limit))

    def folded(self, kinds: Sequence[str], first: int, last: int) -> Sequence[tuple[str, int, int, str]]:
        """Returns kind, step, island and data of the records of some kinds between two numbers, oldest first."""
        query = select(_rows.kind, _rows.step, _rows.island, _rows.data).where(_rows.run == self.number)
        query = query.where(_rows.seq >= first, _rows.seq <= last, _rows.kind.in_(kinds)).order_by(_rows.seq)
        with self._database.reading() as connection:
            found: Sequence[Any] = connection.execute(query).all()
        return found

    def counts(self, first: int, last: int) -> Mapping[str, int]:
        """Returns how many records there are of each kind between two numbers, both included."""
        query = select(_rows.kind, func.count()).where(_rows.run == self.number, _rows.seq >= first, _rows.seq <= last)
        with self._database.reading() as connection:
            return dict(tuple(each) for each in connection.execute(query.group_by(_rows.kind)).all())

    def places(self, kinds: Sequence[str], first: int, last: int) -> Mapping[str, Sequence[int]]:
        """Returns the numbers of the records of some kinds between two numbers, both included, by kind."""
        query = select(_rows.seq, _rows.kind).where(_rows.run == self.number, _rows.kind.in_(kinds))
        query = query.where(_rows.seq >= first, _rows.seq <= last).order_by(_rows.seq)
        found: dict[str, list[int]] = {kind: [] for kind in kinds}
        with self._database.reading() as connection:
            for seq, kind in connection.execute(query).all():
                found[kind].append(seq)
        return found

    def searched(self, words: str, before: int, span: int, limit: int, kinds: Sequence[str] = ()) -> Found:
        """Looks for a text in the records before one, newest first, and no further back than `span` of them."""
        first = max(1, before - span)
        query = _select(self.number).where(_rows.seq < before, _rows.seq >= first, holds(words))
        query = query.where(_rows.kind.in_(kinds)) if kinds else query
        found = self._fetch(query.order_by(_rows.seq.desc()).limit(limit))
        return Found(found, found[-1].seq if len(found) == limit else first)

    def of_step(self, step: int, kind: str, near: int, span: int = 20_000) -> Iterator[Event]:
        """Yields the records of a kind that belong to a step, looked for around a record of that step."""
        query = _select(self.number).where(_rows.seq > near - span, _rows.seq < near + span)
        yield from self._fetch(query.where(_rows.step == step, _rows.kind == kind).order_by(_rows.seq))

    def _fetch(self, query: Select[Any]) -> Sequence[Event]:
        return [Event(*each) for each in self._database.rows(query)]


def holds(words: str) -> Any:
    """Returns the condition that a record's data hold a text, as it stands in JSON; letters of either case fit."""
    plain = words.replace(ESCAPE, ESCAPE * 2).replace("%", f"{ESCAPE}%").replace("_", f"{ESCAPE}_")
    return _rows.data.ilike(f"%{plain}%", escape=ESCAPE)


def number(database: Database, run: str) -> int:
    """Returns the number under which the tables know a run.

    Raises:
        NotFound: There is no such run.
    """
    with database.reading() as connection:
        query = select(schema.runs.c.number).where(schema.runs.c.id == run)
        found: int | None = connection.execute(query).scalar()
    if found is None:
        raise errors.NotFound(f"There is no run {run} in {database.name}.")
    return found


def _select(run: int) -> Select[Any]:
    columns = (_rows.seq, _rows.kind, _rows.step, _rows.island, _rows.data, _rows.links)
    return select(*columns).where(_rows.run == run)
