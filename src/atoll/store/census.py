"""The candidates of a run in bulk: counts, curves, pages and family trees, without their contents.

For those who only look, while somebody else writes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, bindparam, case, false, func, literal, not_, or_, select, tuple_

from atoll.store import events, schema
from atoll.store.projection import Place, place
from atoll.store.store import Store

type Order = Literal["newest", "oldest", "best", "worst"]

_MOST_CHILDREN = 1 << 20  # of a step

_rows = schema.candidates.c
_records = schema.records.c
_place = (_rows.step, _rows.is_draft, _rows.k)
_columns = (*_place, _rows.island, _rows.seq, _rows.score, _rows.verdict, _rows.version, _rows.decided)


_joined = schema.candidates.join(schema.records, and_(_records.run == _rows.run, _records.seq == _rows.seq))
# Made once: to make a question takes longer than to answer it, and a line of ancestors asks a thousand.
_BORN = (
    select(*_columns, _records.data)
    .select_from(_joined)
    .where(_rows.run == bindparam("its_run"), _rows.step.in_(bindparam("steps", expanding=True)))
)


class Head(NamedTuple):
    """A candidate without its content.

    Attributes:
        seq: The number of the record that holds its content.
        decided: The number of the record that says what became of it; None: nothing yet, or a draft.
    """

    id: str
    step: int
    is_draft: bool
    island: int
    seq: int
    score: float | None
    verdict: str | None
    version: str | None
    decided: int | None


class Bucket(NamedTuple):
    """What some steps of an island came to.

    Attributes:
        step: The last of them.
    """

    island: int
    step: int
    best: float | None
    mean: float | None
    size: int


class Counts(NamedTuple):
    """How many candidates there are of each sort on an island; drafts apart."""

    island: int
    children: int
    drafts: int
    accepted: int
    scored: int


class Cluster(NamedTuple):
    """Candidates of an island with the same score; `id` is the newest of them."""

    score: float
    size: int
    id: str


class Better(NamedTuple):
    """A candidate that was better than all that were accepted before it."""

    id: str
    step: int
    island: int
    score: float


class Filter(NamedTuple):
    """Which candidates are wanted; None and empty: all of them."""

    island: int | None = None
    is_failed: bool | None = None
    is_draft: bool | None = None
    verdict: str | None = None
    least: float | None = None
    id: str = ""


class Census:
    """The candidates of one run.

    Raises:
        NotFound: There is no such run.
    """

    def __init__(self, kept: Store, run: str) -> None:
        self._database = kept.database
        self.number = events.number(kept.database, run)

    def last_step(self) -> int:
        """Returns the newest step that has a candidate; 0: only the start, or nothing."""
        return self._scalar(select(func.max(_rows.step)).where(_rows.run == self.number)) or 0

    def count(self) -> int:
        """Returns how many there are, drafts included."""
        return self._scalar(select(func.count()).select_from(schema.candidates).where(_rows.run == self.number)) or 0

    def buckets(self, width: int) -> Sequence[Bucket]:
        """Returns best, mean and number of the scores of every island for each `width` steps, in their order."""
        # The number itself, and no parameter: PostgreSQL must see that what is grouped by is what is ordered by.
        start = _rows.step - _rows.step % literal(width, literal_execute=True)
        query = select(_rows.island, func.max(_rows.step), func.max(_rows.score), func.avg(_rows.score), func.count())
        query = query.where(_rows.run == self.number).group_by(_rows.island, start).order_by(start, _rows.island)
        return [Bucket(*each) for each in self._database.rows(query)]

    def counts(self) -> Sequence[Counts]:
        """Returns how many there are on each island, in their order."""
        accepted = func.sum(_one(and_(_rows.verdict == "accept", not_(_rows.is_draft))))
        query = select(
            _rows.island,
            func.sum(_one(not_(_rows.is_draft))),
            func.sum(_one(_rows.is_draft)),
            accepted,
            func.count(_rows.score),
        )
        query = query.where(_rows.run == self.number, _rows.step > 0).group_by(_rows.island).order_by(_rows.island)
        return [Counts(*(int(value or 0) for value in each)) for each in self._database.rows(query)]

    def clusters(self, limit: int) -> Mapping[int, Sequence[Cluster]]:
        """Returns the highest scores of every island with how many candidates have each, the best first."""
        rank = func.row_number().over(partition_by=_rows.island, order_by=_rows.score.desc()).label("place")
        newest = func.max(_rows.step * _MOST_CHILDREN + _rows.k)  # both in one number
        inner = select(_rows.island, _rows.score, func.count().label("size"), newest.label("newest"), rank)
        inner = inner.where(_rows.run == self.number, schema.ACCEPTED).group_by(_rows.island, _rows.score)
        each = inner.subquery().c
        query = select(each.island, each.score, each.size, each.newest).where(each.place <= limit)
        found: dict[int, list[Cluster]] = {}
        for island, score, size, last in self._database.rows(query.order_by(each.island, each.place)):
            step, k = divmod(last, _MOST_CHILDREN)
            found.setdefault(island, []).append(Cluster(score, size, Place(step, False, k).id))
        return found

    def page(self, wanted: Filter, order: Order, after: Sequence[Any] | None, limit: int) -> Sequence[Head]:
        """Returns some candidates.

        Args:
            after: `key_of` the last one of the page before; None: from the beginning.
        """
        query = _select(self.number).where(*_conditions(wanted))
        if order in ("best", "worst"):
            query = query.where(_rows.score.is_not(None))
        keys = _keys(order)
        if after is not None:
            bound = tuple_(*(column for column, _ in keys))
            # All keys of an order go the same way, so that one comparison of tuples finds the rest.
            query = query.where(bound < tuple_(*after) if keys[0][1] else bound > tuple_(*after))
        return self._heads(query.order_by(*(column.desc() if down else column for column, down in keys)).limit(limit))

    def best(self, limit: int = 1, island: int | None = None) -> Sequence[Head]:
        """Returns the accepted ones with the highest scores; at equal score, who was accepted first comes first."""
        query = _select(self.number).where(schema.ACCEPTED)
        query = query if island is None else query.where(_rows.island == island)
        return self._heads(query.order_by(_rows.score.desc(), _rows.decided, _rows.k).limit(limit))

    def improvements(self, after: int = -1, score: float | None = None) -> Sequence[Better]:
        """Returns the accepted ones that were better than all of earlier steps.

        Args:
            after: Only those of later steps than this.
            score: The best up to it.
        """
        so_far = func.max(_rows.score).over(
            order_by=_place, rows=(None, -1)
        )  # in the order of the key: nothing to sort
        inner = select(*_place, _rows.island, _rows.score, so_far.label("so_far"))
        inner = inner.where(_rows.run == self.number, schema.ACCEPTED, _rows.step > after)
        found = (inner if score is None else inner.where(_rows.score > score)).subquery().c
        query = select(found.step, found.is_draft, found.k, found.island, found.score)
        query = query.where(or_(found.so_far.is_(None), found.score > found.so_far))
        rows = self._database.rows(query.order_by(found.step, found.is_draft, found.k))
        return [Better(Place(step, is_draft, k).id, step, *rest) for step, is_draft, k, *rest in rows]

    def window(self, first: int, last: int, limit: int) -> Sequence[Head]:
        """Returns the candidates of some steps, in their order."""
        query = _select(self.number).where(_rows.step >= first, _rows.step <= last)
        return self._heads(query.order_by(*_place).limit(limit))

    def contents(self, heads: Sequence[Head]) -> Mapping[int, str]:
        """Returns the JSON texts of the records that hold some candidates, by their numbers."""
        found: dict[int, str] = {}
        seqs = sorted({head.seq for head in heads})
        for start in range(0, len(seqs), 500):
            chosen = _records.seq.in_(seqs[start : start + 500])
            for seq, data in self._database.rows(
                select(_records.seq, _records.data).where(_records.run == self.number, chosen)
            ):
                found[seq] = data
        return found

    def find(self, ids: Sequence[str]) -> Mapping[str, Head]:
        """Returns candidates by their ids or by the versions they became; those there are not are left out."""
        found: dict[str, Head] = {}
        places = {id: where for id in ids if (where := place(id))}
        names = [id for id in ids if id not in places]
        steps = sorted({where.step for where in places.values()})
        for start in range(0, len(steps), 500):
            heads = self._heads(_select(self.number).where(_rows.step.in_(steps[start : start + 500])))
            found.update((head.id, head) for head in heads if head.id in places)
        for start in range(0, len(names), 500):
            chosen = and_(_rows.version.in_(names[start : start + 500]), schema.VERSIONED)
            for head in self._heads(_select(self.number).where(chosen)):
                found[str(head.version)] = head
        return found

    def born(self, ids: Sequence[str]) -> Mapping[str, tuple[Head, str]]:
        """Returns some candidates by their ids, each with the JSON text of the record that holds it; in one question.

        Those that are versions are not looked for; `find` does that.
        """
        steps = sorted({where.step for id in ids if (where := place(id))})
        found: dict[str, tuple[Head, str]] = {}
        with self._database.reading() as connection:
            rows = connection.execute(_BORN, {"its_run": self.number, "steps": steps}).all()
        for step, is_draft, k, *rest, data in rows:
            id = Place(step, is_draft, k).id
            if id in ids:
                found[id] = Head(id, step, is_draft, *rest), data
        return found

    def _heads(self, query: Select[Any]) -> Sequence[Head]:
        return [
            Head(Place(step, is_draft, k).id, step, is_draft, *rest)
            for step, is_draft, k, *rest in self._database.rows(query)
        ]

    def _scalar(self, query: Select[Any]) -> Any:
        with self._database.reading() as connection:
            return connection.execute(query).scalar()


def key_of(head: Head, order: Order) -> Sequence[Any]:
    """Returns where a candidate stands in an order, as plain data."""
    where = place(head.id)
    assert where is not None, "an id made from a place is one"
    return [head.score, *where] if order in ("best", "worst") else list(where)


def _keys(order: Order) -> Sequence[tuple[Any, bool]]:
    """Returns the columns of an order and whether each goes down."""
    down = order in ("newest", "best")
    columns = (_rows.score, *_place) if order in ("best", "worst") else _place
    return [(column, down) for column in columns]


def _conditions(wanted: Filter) -> Sequence[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if wanted.island is not None:
        found.append(_rows.island == wanted.island)
    if wanted.is_failed is not None:
        found.append(_rows.score.is_(None) if wanted.is_failed else _rows.score.is_not(None))
    if wanted.is_draft is not None:
        found.append(_rows.is_draft == wanted.is_draft)
    if wanted.verdict is not None:
        found.append(_rows.verdict == wanted.verdict)
    if wanted.least is not None:
        found.append(_rows.score >= wanted.least)
    if wanted.id:
        found.append(_named(wanted.id))
    return found


def _named(id: str) -> ColumnElement[bool]:
    """Returns the condition for an id, a step (`12` or `12.`: its candidates), or a version."""
    step, _, rest = id.partition(".")
    if not (step.isascii() and step.isdigit() and len(step) <= 18):
        return _rows.version == id
    conditions = [_rows.step == int(step)]
    if where := place(id):
        conditions += [_rows.is_draft == where.is_draft, _rows.k == where.k]
    elif rest:
        conditions.append(false())
    return and_(*conditions)


def _select(run: int) -> Select[Any]:
    return select(*_columns).where(_rows.run == run)


def _one(condition: Any) -> Any:
    return case((condition, 1), else_=0)
