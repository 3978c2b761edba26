"""Candidates of a run, read without its journal, and the rows that its records become."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from sqlalchemy import Engine, Select, and_, bindparam, func, select, tuple_, update

from atoll import errors, journal
from atoll.candidate import EMPTY, JSON
from atoll.store.database import schema
from atoll.store.database.database import Database, PreparedStatement, retry_transaction
from atoll.store.records import json_codec
from atoll.store.records.blobs import Blobs
from atoll.store.records.json_codec import unpack

INITIAL_DECISION = ("accept", "founded", "atoll", None)

# At most 18 digits, which fit into a column.
_ID = re.compile(r"(0|[1-9][0-9]{0,17})\.(d?)(0|[1-9][0-9]{0,17})")


class CandidatePosition(NamedTuple):
    """Position of a candidate in its run; its id as numbers."""

    step: int
    is_draft: bool
    k: int

    @property
    def id(self) -> str:
        return f"{self.step}.{'d' if self.is_draft else ''}{self.k}"


def parse_candidate_id(id: object) -> CandidatePosition | None:
    """Parses the id of a child (`7.0`) or a trial (`7.d0`); returns None for anything else."""
    match = _ID.fullmatch(id) if isinstance(id, str) else None
    return CandidatePosition(int(match[1]), bool(match[2]), int(match[3])) if match else None


class CandidateRows:
    """Collects the rows of candidates from records.

    A row refers to the record that contains the candidate, so that no text is stored twice.
    """

    KINDS = ("judged", "founded", "applied", "decided")

    def __init__(self, run_number: int) -> None:
        self._run_number = run_number
        self.evaluated_rows: list[tuple[Any, ...]] = []
        self.decision_rows: list[tuple[Any, ...]] = []

    def add(self, seq: int, record: journal.Record) -> None:
        data = record.data
        match record.kind:
            case "judged":
                self._add_row(seq, record.island, data)
            case "founded":
                self._add_row(seq, record.island, data)
                self._add_decision(seq, data.get("id"), INITIAL_DECISION)
            case "applied":
                for child in data.get("children", ()):
                    if "content" in child:  # it has no evaluation
                        self._add_row(seq, record.island, child)
                    self._add_decision(seq, child.get("id"), child["decision"])
            case "decided":
                self._add_decision(seq, data.get("id"), data["decision"])

    def _add_row(self, seq: int, island: int, data: Mapping[str, Any]) -> None:
        if position := parse_candidate_id(data.get("id")):
            score = (data.get("evaluation") or {}).get("score")
            self.evaluated_rows.append((self._run_number, *position, data.get("island", island), seq, score))

    def _add_decision(self, seq: int, id: object, decision: Sequence[Any]) -> None:
        if position := parse_candidate_id(id):
            verdict, *_, version = decision
            self.decision_rows.append((verdict, version, json_codec.encode(decision), seq, self._run_number, *position))


def derive_columns(
    run_number: int, records: Iterable[Sequence[Any]], load_blob: Callable[[str], bytes]
) -> Mapping[tuple[Any, ...], tuple[Any, ...]]:
    """Returns the columns of the candidates of a run by position, as the journal wrote them with its records.

    Args:
        run_number: Number of the run.
        records: Rows of its records in order, without the run.
        load_blob: Returns the bytes of a hash.
    """
    derived = dict[tuple[Any, ...], tuple[Any, ...]]()
    for seq, kind, step, island, text, links, *_ in records:
        if kind not in CandidateRows.KINDS:
            continue
        collected = CandidateRows(run_number)
        collected.add(seq, journal.Record(kind, step, island, unpack(text, links, load_blob)))
        for _, *position, own_island, own_seq, score in collected.evaluated_rows:
            decision = derived.get(tuple(position), (None,) * 7)[3:]
            derived[tuple(position)] = (own_island, own_seq, score, *decision)
        for verdict, version, decision_text, decided, _, *position in collected.decision_rows:
            if known := derived.get(tuple(position)):
                derived[tuple(position)] = (*known[:3], verdict, version, decision_text, decided)
    return derived


class CandidateRowWriter:
    """Writes `CandidateRows` to the database."""

    def __init__(self, engine: Engine) -> None:
        table = schema.candidates
        key = [column.name for column in table.primary_key]
        upsert = schema.insert_for(engine.dialect.name)(table)
        upsert = upsert.on_conflict_do_update(  # a repeated iteration may use the same id for another candidate
            index_elements=key, set_={name: upsert.excluded[name] for name in ("island", "seq", "score")}
        )
        self._upsert = PreparedStatement(engine, upsert, [*key, "island", "seq", "score"])
        condition = and_(*(table.c[name] == bindparam(f"its_{name}") for name in key))
        columns = ["verdict", "version", "decision", "decided"]
        self._update_decision = PreparedStatement(
            engine, update(table).where(condition), [*columns, *(f"its_{name}" for name in key)]
        )

    def write(self, cursor: Any, rows: CandidateRows) -> None:
        if rows.evaluated_rows:
            self._upsert.execute(cursor, rows.evaluated_rows)
        if rows.decision_rows:
            self._update_decision.execute(cursor, rows.decision_rows)


CHUNK = 256  # rows read at a time

_candidates = schema.candidates.c
_records = schema.records.c
_order_columns = (_candidates.step, _candidates.is_draft, _candidates.k)
_columns = (*_order_columns, _candidates.island, _candidates.score, _candidates.decision, _records.data, _records.links)
_joined = schema.candidates.join(schema.records, and_(_records.run == _candidates.run, _records.seq == _candidates.seq))


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate with its evaluation and decision. The export writes these fields.

    Attributes:
        id: `iteration.k`; of a trial `iteration.dN`.
        step: Iteration.
        verdict: Decision; None for a trial, and until the iteration is applied.
        by: Gate that decided.
        version: `key@n` if it became a version.
        is_draft: Whether it is a trial: evaluated inside an iteration, but not a child.
    """

    id: str
    parents: tuple[str, ...]
    island: int
    step: int
    content: str
    score: float | None
    scores: tuple[float, ...]
    metrics: Mapping[str, float]
    feedback: str
    failure: str | None
    meta: Mapping[str, JSON]
    verdict: str | None
    reason: str | None
    by: str | None
    version: str | None
    is_draft: bool


class Candidates:
    """Candidates of one run. Iterates by iteration; in each, children come before trials."""

    def __init__(self, database: Database, run_number: int) -> None:
        self._database, self._run_number, self._blobs = database, run_number, Blobs(database)

    def __iter__(self) -> Iterator[Row]:
        return self._iterate(_select(self._run_number))

    def iter_island(self, island: int) -> Iterator[Row]:
        """Yields the candidates of one island, in the same order."""
        return self._iterate(_select(self._run_number).where(_candidates.island == island))

    def list_islands(self) -> Sequence[int]:
        """Returns the islands that have candidates, sorted."""
        query = select(_candidates.island).where(_candidates.run == self._run_number, _candidates.island >= 0)
        with self._database.begin_read() as connection:
            return sorted(connection.execute(query.distinct()).scalars())

    def count(self) -> int:
        """Returns the number of candidates, including trials."""
        with self._database.begin_read() as connection:
            query = select(func.count()).select_from(schema.candidates).where(_candidates.run == self._run_number)
            return connection.execute(query).scalar_one()

    def count_failed(self) -> int:
        """Returns the number of children whose evaluation failed."""
        query = select(_candidates.decision).where(
            _candidates.run == self._run_number, _candidates.score.is_(None), _candidates.verdict == "reject"
        )
        with self._database.begin_read() as connection:
            decisions = connection.execute(query).scalars()
            return sum(json.loads(decision)[2] == "judge" for decision in decisions if decision)

    def list_best(self, n: int = 1, *, island: int | None = None) -> Sequence[Row]:
        """Returns the accepted candidates with the highest scores; equal scores in order of acceptance."""
        return self._fetch(select_best(self._run_number, n, island))

    def get(self, id: str) -> Row:
        """Returns one candidate.

        Raises:
            NotFound: The run does not have it.
        """
        row = self.find(id)
        if row is None:
            raise errors.NotFound(f"Candidate {id} not found in the run.")
        return row

    def get_lineage(self, id: str) -> Sequence[Row]:
        """Returns a candidate and its ancestors, each once, nearest first.

        A parent that is a version (`key@n`) means the candidate of this run that became it. Parents from other runs
        are skipped.

        Raises:
            NotFound: The run does not have the candidate.
        """
        start = self.get(id)
        rows, queue = {start.id: start}, list(start.parents)
        for parent in queue:  # grows during the loop
            row = None if parent in rows else self.find(parent)
            if row is not None and row.id not in rows:
                rows[row.id] = row
                queue.extend(row.parents)
        return list(rows.values())

    def find(self, id: str) -> Row | None:
        """Returns a candidate by its id or by the version it became, or None."""
        position = parse_candidate_id(id)
        if position is not None:
            condition = and_(*(column == value for column, value in zip(_order_columns, position, strict=True)))
        else:
            condition = and_(_candidates.version == id, schema.VERSIONED)
        rows = self._fetch(_select(self._run_number).where(condition).limit(1))
        return rows[0] if rows else None

    def _iterate(self, query: Select[Any]) -> Iterator[Row]:
        query, after = query.order_by(*_order_columns).limit(CHUNK), CandidatePosition(-1, False, 0)
        while rows := self._fetch(query.where(tuple_(*_order_columns) > tuple_(*after))):
            yield from rows
            position = parse_candidate_id(rows[-1].id)
            assert position is not None
            after = position

    def _fetch(self, query: Select[Any]) -> Sequence[Row]:
        return [self._make_row(*row) for row in retry_transaction(lambda: self._database.fetch_rows(query))]

    def _make_row(self, step: int, is_draft: bool, k: int, *columns: Any) -> Row:
        island, score, decision, text, links = columns
        id, data = CandidatePosition(step, is_draft, k).id, unpack(text, links, self._blobs.get)
        if data.get("id") != id:  # a child without an evaluation is in the record of its iteration
            data = next(child for child in data["children"] if child["id"] == id)
        evaluation = data.get("evaluation") or EMPTY
        verdict, reason, decided_by, version = json.loads(decision) if decision else (None, None, None, None)
        return Row(
            id=id,
            parents=tuple(data.get("parents", ())),
            island=island,
            step=step,
            content=data.get("content", ""),
            score=score,
            scores=tuple(evaluation.get("scores", ())),
            metrics=evaluation.get("metrics", EMPTY),
            feedback=evaluation.get("feedback", ""),
            failure=evaluation.get("failure"),
            meta=data.get("meta", EMPTY),
            verdict=verdict,
            reason=reason,
            by=decided_by,
            version=version,
            is_draft=is_draft,
        )


def select_best(run_number: int, n: int, island: int | None) -> Select[Any]:
    query = (
        _select(run_number)
        .where(schema.ACCEPTED)
        .order_by(_candidates.score.desc(), _candidates.decided, _candidates.k)
        .limit(n)
    )
    return query if island is None else query.where(_candidates.island == island)


def iter_json_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yields one JSON line per candidate, without its line end; equal runs give equal bytes.

    The lines contain no times, costs or sequence numbers, which can differ between equal runs.
    """
    for row in rows:
        data = {field.name: getattr(row, field.name) for field in fields(Row)}
        plain = {name: dict(value) if isinstance(value, Mapping) else value for name, value in data.items()}
        yield json.dumps(plain, sort_keys=True, allow_nan=False)


def _select(run_number: int) -> Select[Any]:
    return select(*_columns).select_from(_joined).where(_candidates.run == run_number)
