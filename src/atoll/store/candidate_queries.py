"""Read-only queries of the candidates of a run, without their contents: counts, curves, pages, lineages."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, bindparam, case, false, func, literal, not_, or_, select, tuple_

from atoll.store.candidates import CandidatePosition, parse_candidate_id
from atoll.store.database import schema
from atoll.store.store import Runs, Store

type SortOrder = Literal["newest", "oldest", "best", "worst"]

_MAX_CHILDREN = 1 << 20  # per iteration

_candidates = schema.candidates.c
_records = schema.records.c
_position_columns = (_candidates.step, _candidates.is_draft, _candidates.k)
_columns = (
    *_position_columns,
    _candidates.island,
    _candidates.seq,
    _candidates.score,
    _candidates.verdict,
    _candidates.version,
    _candidates.decided,
)
_joined = schema.candidates.join(schema.records, and_(_records.run == _candidates.run, _records.seq == _candidates.seq))
# Built once, because building takes longer than the query, and a lineage needs thousands of queries.
_SELECT_WITH_RECORD = (
    select(*_columns, _records.data)
    .select_from(_joined)
    .where(_candidates.run == bindparam("its_run"), _candidates.step.in_(bindparam("steps", expanding=True)))
)


class CandidateHead(NamedTuple):
    """Candidate without its content.

    Attributes:
        seq: Sequence number of the record with its content.
        decided: Sequence number of the record with its decision; None: not decided yet, or a trial.
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


class ScoreBucket(NamedTuple):
    """Scores of some iterations of an island.

    Attributes:
        step: Last of these iterations.
    """

    island: int
    step: int
    best: float | None
    mean: float | None
    size: int


class IslandCounts(NamedTuple):
    """Numbers of candidates of an island."""

    island: int
    children: int
    drafts: int
    accepted: int
    scored: int


class ScoreCluster(NamedTuple):
    """Candidates of an island with equal score; `id` is the newest."""

    score: float
    size: int
    id: str


class ImprovementRow(NamedTuple):
    """Candidate with a higher score than all accepted before."""

    id: str
    step: int
    island: int
    score: float


class CandidateFilter(NamedTuple):
    """Conditions for candidates; None and empty mean all."""

    island: int | None = None
    is_failed: bool | None = None
    is_draft: bool | None = None
    verdict: str | None = None
    min_score: float | None = None
    id: str = ""


class CandidateQueries:
    """Queries the candidates of one run.

    Raises:
        NotFound: The run does not exist.
    """

    def __init__(self, store: Store, run_id: str) -> None:
        self._database = store.database
        self.run_number = Runs(store.database).get_number(run_id)

    def get_last_step(self) -> int:
        """Returns the newest iteration with a candidate; 0: only the initial candidate, or none."""
        return self._fetch_scalar(select(func.max(_candidates.step)).where(_candidates.run == self.run_number)) or 0

    def count(self) -> int:
        """Returns the number of candidates, including trials."""
        query = select(func.count()).select_from(schema.candidates).where(_candidates.run == self.run_number)
        return self._fetch_scalar(query) or 0

    def list_buckets(self, width: int) -> Sequence[ScoreBucket]:
        """Returns best, mean and number of scores of every island, per `width` iterations."""
        # A literal, because PostgreSQL must see that the expressions of GROUP BY and ORDER BY are equal.
        start = _candidates.step - _candidates.step % literal(width, literal_execute=True)
        query = select(
            _candidates.island,
            func.max(_candidates.step),
            func.max(_candidates.score),
            func.avg(_candidates.score),
            func.count(_candidates.score),
        )
        query = (
            query.where(_candidates.run == self.run_number)
            .group_by(_candidates.island, start)
            .order_by(start, _candidates.island)
        )
        return [ScoreBucket(*row) for row in self._database.fetch_rows(query)]

    def list_sample(self, limit: int) -> Sequence[CandidateHead]:
        """Returns at most about `limit` scored candidates, from evenly spaced iterations, in order."""
        stride = max(1, -(-self.count() // limit))
        query = _select(self.run_number).where(_candidates.score.is_not(None), not_(_candidates.is_draft))
        query = query if stride == 1 else query.where(_candidates.step % literal(stride, literal_execute=True) == 0)
        return self._fetch_heads(query.order_by(*_position_columns).limit(2 * limit))

    def count_by_island(self) -> Sequence[IslandCounts]:
        """Returns the numbers of candidates of each island."""
        accepted = func.sum(_one_if(and_(_candidates.verdict == "accept", not_(_candidates.is_draft))))
        query = select(
            _candidates.island,
            func.sum(_one_if(not_(_candidates.is_draft))),
            func.sum(_one_if(_candidates.is_draft)),
            accepted,
            func.count(_candidates.score),
        )
        query = (
            query.where(_candidates.run == self.run_number, _candidates.step > 0)
            .group_by(_candidates.island)
            .order_by(_candidates.island)
        )
        return [IslandCounts(*(int(value or 0) for value in row)) for row in self._database.fetch_rows(query)]

    def list_clusters(self, limit: int) -> Mapping[int, Sequence[ScoreCluster]]:
        """Returns the highest scores of every island with their numbers of candidates, best first."""
        rank = func.row_number().over(partition_by=_candidates.island, order_by=_candidates.score.desc()).label("place")
        newest = func.max(_candidates.step * _MAX_CHILDREN + _candidates.k)  # both in one number
        inner = select(_candidates.island, _candidates.score, func.count().label("size"), newest.label("newest"), rank)
        inner = inner.where(_candidates.run == self.run_number, schema.ACCEPTED).group_by(
            _candidates.island, _candidates.score
        )
        columns = inner.subquery().c
        query = select(columns.island, columns.score, columns.size, columns.newest).where(columns.place <= limit)
        clusters_by_island: dict[int, list[ScoreCluster]] = {}
        for island, score, size, last in self._database.fetch_rows(query.order_by(columns.island, columns.place)):
            step, k = divmod(last, _MAX_CHILDREN)
            clusters_by_island.setdefault(island, []).append(
                ScoreCluster(score, size, CandidatePosition(step, False, k).id)
            )
        return clusters_by_island

    def list_page(
        self, criteria: CandidateFilter, order: SortOrder, after: Sequence[Any] | None, limit: int
    ) -> Sequence[CandidateHead]:
        """Returns a page of candidates.

        Args:
            criteria: Conditions.
            order: Sort order.
            after: `get_sort_key` of the last candidate of the previous page; None: first page.
            limit: Page size.
        """
        query = _select(self.run_number).where(*_make_conditions(criteria))
        if order in ("best", "worst"):
            query = query.where(_candidates.score.is_not(None))
        sort_columns = _get_sort_columns(order)
        if after is not None:
            key_columns = tuple_(*(column for column, _ in sort_columns))
            # All columns have the same direction, so one comparison of tuples is enough.
            query = query.where(key_columns < tuple_(*after) if sort_columns[0][1] else key_columns > tuple_(*after))
        ordering = (column.desc() if is_descending else column for column, is_descending in sort_columns)
        return self._fetch_heads(query.order_by(*ordering).limit(limit))

    def list_best(self, limit: int = 1, island: int | None = None) -> Sequence[CandidateHead]:
        """Returns the accepted candidates with the highest scores; equal scores in order of acceptance."""
        query = _select(self.run_number).where(schema.ACCEPTED)
        query = query if island is None else query.where(_candidates.island == island)
        query = query.order_by(_candidates.score.desc(), _candidates.decided, _candidates.k)
        return self._fetch_heads(query.limit(limit))

    def list_improvements(self, after: int = -1, score: float | None = None) -> Sequence[ImprovementRow]:
        """Returns the accepted candidates with a higher score than all earlier ones.

        Args:
            after: Only later iterations than this.
            score: Best score up to `after`.
        """
        # The order of the primary key needs no sorting.
        so_far = func.max(_candidates.score).over(order_by=_position_columns, rows=(None, -1))
        inner = select(*_position_columns, _candidates.island, _candidates.score, so_far.label("so_far"))
        inner = inner.where(_candidates.run == self.run_number, schema.ACCEPTED, _candidates.step > after)
        columns = (inner if score is None else inner.where(_candidates.score > score)).subquery().c
        query = select(columns.step, columns.is_draft, columns.k, columns.island, columns.score)
        query = query.where(or_(columns.so_far.is_(None), columns.score > columns.so_far))
        rows = self._database.fetch_rows(query.order_by(columns.step, columns.is_draft, columns.k))
        return [
            ImprovementRow(CandidatePosition(step, is_draft, k).id, step, *values)
            for step, is_draft, k, *values in rows
        ]

    def list_window(self, first: int, last: int, limit: int) -> Sequence[CandidateHead]:
        """Returns the candidates from iteration `first` to `last`, in order."""
        query = _select(self.run_number).where(_candidates.step >= first, _candidates.step <= last)
        return self._fetch_heads(query.order_by(*_position_columns).limit(limit))

    def load_contents(self, heads: Sequence[CandidateHead]) -> Mapping[int, str]:
        """Returns the JSON of the records that contain these candidates, by sequence number."""
        texts: dict[int, str] = {}
        seqs = sorted({head.seq for head in heads})
        for start in range(0, len(seqs), 500):
            condition = _records.seq.in_(seqs[start : start + 500])
            for seq, data in self._database.fetch_rows(
                select(_records.seq, _records.data).where(_records.run == self.run_number, condition)
            ):
                texts[seq] = data
        return texts

    def find(self, ids: Sequence[str]) -> Mapping[str, CandidateHead]:
        """Returns candidates by their ids or by the versions they became; skips unknown ids."""
        found_heads: dict[str, CandidateHead] = {}
        positions = {id: position for id in ids if (position := parse_candidate_id(id))}
        version_names = [id for id in ids if id not in positions]
        steps = sorted({position.step for position in positions.values()})
        for start in range(0, len(steps), 500):
            heads = self._fetch_heads(_select(self.run_number).where(_candidates.step.in_(steps[start : start + 500])))
            found_heads.update((head.id, head) for head in heads if head.id in positions)
        for start in range(0, len(version_names), 500):
            condition = and_(_candidates.version.in_(version_names[start : start + 500]), schema.VERSIONED)
            for head in self._fetch_heads(_select(self.run_number).where(condition)):
                found_heads[str(head.version)] = head
        return found_heads

    def find_with_records(self, ids: Sequence[str]) -> Mapping[str, tuple[CandidateHead, str]]:
        """Returns candidates by their ids, each with the JSON of its record, in one query. Ignores version names."""
        steps = sorted({position.step for id in ids if (position := parse_candidate_id(id))})
        found_heads: dict[str, tuple[CandidateHead, str]] = {}
        with self._database.begin_read() as connection:
            rows = connection.execute(_SELECT_WITH_RECORD, {"its_run": self.run_number, "steps": steps}).all()
        for step, is_draft, k, *values, data in rows:
            id = CandidatePosition(step, is_draft, k).id
            if id in ids:
                found_heads[id] = CandidateHead(id, step, is_draft, *values), data
        return found_heads

    def _fetch_heads(self, query: Select[Any]) -> Sequence[CandidateHead]:
        return [
            CandidateHead(CandidatePosition(step, is_draft, k).id, step, is_draft, *values)
            for step, is_draft, k, *values in self._database.fetch_rows(query)
        ]

    def _fetch_scalar(self, query: Select[Any]) -> Any:
        with self._database.begin_read() as connection:
            return connection.execute(query).scalar()


def get_sort_key(head: CandidateHead, order: SortOrder) -> Sequence[Any]:
    """Returns the sort key of a candidate as plain data."""
    position = parse_candidate_id(head.id)
    assert position is not None
    return [head.score, *position] if order in ("best", "worst") else list(position)


def _get_sort_columns(order: SortOrder) -> Sequence[tuple[Any, bool]]:
    """Returns the columns of a sort order, and whether each is descending."""
    is_descending = order in ("newest", "best")
    columns = (_candidates.score, *_position_columns) if order in ("best", "worst") else _position_columns
    return [(column, is_descending) for column in columns]


def _make_conditions(criteria: CandidateFilter) -> Sequence[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if criteria.island is not None:
        conditions.append(_candidates.island == criteria.island)
    if criteria.is_failed is not None:
        conditions.append(_candidates.score.is_(None) if criteria.is_failed else _candidates.score.is_not(None))
    if criteria.is_draft is not None:
        conditions.append(_candidates.is_draft == criteria.is_draft)
    if criteria.verdict is not None:
        conditions.append(_candidates.verdict == criteria.verdict)
    if criteria.min_score is not None:
        conditions.append(_candidates.score >= criteria.min_score)
    if criteria.id:
        conditions.append(_match_id(criteria.id))
    return conditions


def _match_id(id: str) -> ColumnElement[bool]:
    """Returns the condition for an id, an iteration (`12` or `12.`), or a version."""
    step, _, suffix = id.partition(".")
    if not (step.isascii() and step.isdigit() and len(step) <= 18):
        return _candidates.version == id
    conditions = [_candidates.step == int(step)]
    if position := parse_candidate_id(id):
        conditions += [_candidates.is_draft == position.is_draft, _candidates.k == position.k]
    elif suffix:
        conditions.append(false())
    return and_(*conditions)


def _select(run_number: int) -> Select[Any]:
    return select(*_columns).where(_candidates.run == run_number)


def _one_if(condition: Any) -> Any:
    return case((condition, 1), else_=0)
