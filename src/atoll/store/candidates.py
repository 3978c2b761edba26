"""What a run has tried, without reading its journal."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Select, and_, func, select, tuple_

from atoll import errors
from atoll.candidate import JSON, NOTHING
from atoll.store import schema
from atoll.store.blobs import Blobs
from atoll.store.database import Database
from atoll.store.packing import unpack
from atoll.store.perseverance import persistently
from atoll.store.projection import Place, place

CHUNK = 256  # rows read at a time

_rows = schema.candidates.c
_records = schema.records.c
_order = (_rows.step, _rows.is_draft, _rows.k)
_columns = (*_order, _rows.island, _rows.score, _rows.decision, _records.data, _records.links)
_joined = schema.candidates.join(schema.records, and_(_records.run == _rows.run, _records.seq == _rows.seq))


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate with what was found out and decided.

    Attributes:
        id: `step.k`, of a draft `step.dN`.
        verdict: None until its step was applied, and of a draft.
        version: `key@n` where it became a version.
        is_draft: It was judged on the way to a child and is none itself.
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
    """The candidates of one run. Iterates by step, in each the children in their order, then the drafts."""

    def __init__(self, database: Database, run: int) -> None:
        self._database, self._run, self._blobs = database, run, Blobs(database)

    def __iter__(self) -> Iterator[Row]:
        return self._walk(_select(self._run))

    def of_island(self, island: int) -> Iterator[Row]:
        """Yields those that were proposed on one island, in the same order."""
        return self._walk(_select(self._run).where(_rows.island == island))

    def islands(self) -> Sequence[int]:
        """Returns the islands that candidates were proposed on, in their order."""
        query = select(_rows.island).where(_rows.run == self._run, _rows.island >= 0).distinct()
        with self._database.reading() as connection:
            return sorted(connection.execute(query).scalars())

    def count(self) -> int:
        """Returns how many there are, drafts included."""
        with self._database.reading() as connection:
            query = select(func.count()).select_from(schema.candidates).where(_rows.run == self._run)
            return connection.execute(query).scalar_one()

    def num_failed(self) -> int:
        """Returns how many children were judged and got no score."""
        query = select(_rows.decision).where(_rows.run == self._run, _rows.score.is_(None), _rows.verdict == "reject")
        with self._database.reading() as connection:
            decisions = connection.execute(query).scalars()
            return sum(json.loads(each)[2] == "judge" for each in decisions if each)

    def best(self, n: int = 1, *, island: int | None = None) -> Sequence[Row]:
        """Returns the accepted ones with the highest scores; at equal score, who was accepted first comes first."""
        return self._fetch(best_query(self._run, n, island))

    def get(self, id: str) -> Row:
        """Returns one candidate.

        Raises:
            NotFound: The run has none of that id.
        """
        found = self.find(id)
        if found is None:
            raise errors.NotFound(f"The run has no candidate {id}.")
        return found

    def lineage(self, id: str) -> Sequence[Row]:
        """Returns a candidate and its ancestors up to the founders, each once, nearest first.

        A parent that is a version (`key@n`) stands for the candidate of this run that became it. One that came from
        elsewhere ends its line.

        Raises:
            NotFound: The run has no candidate of that id.
        """
        first = self.get(id)
        found, queue = {first.id: first}, list(first.parents)
        for parent in queue:  # grows as it goes
            row = None if parent in found else self.find(parent)
            if row is not None and row.id not in found:
                found[row.id] = row
                queue.extend(row.parents)
        return list(found.values())

    def find(self, id: str) -> Row | None:
        """Returns one candidate, by its id or by the version it became; None if there is none."""
        where = place(id)
        if where is not None:
            here = and_(*(column == value for column, value in zip(_order, where, strict=True)))
        else:
            here = and_(_rows.version == id, schema.VERSIONED)
        rows = self._fetch(_select(self._run).where(here).limit(1))
        return rows[0] if rows else None

    def _walk(self, query: Select[Any]) -> Iterator[Row]:
        query, after = query.order_by(*_order).limit(CHUNK), Place(-1, False, 0)
        while rows := self._fetch(query.where(tuple_(*_order) > tuple_(*after))):
            yield from rows
            last = place(rows[-1].id)
            assert last is not None, "an id made from a place is one"
            after = last

    def _fetch(self, query: Select[Any]) -> Sequence[Row]:
        return [self._row(*each) for each in persistently(lambda: self._database.rows(query))]

    def _row(self, step: int, is_draft: bool, k: int, *rest: Any) -> Row:
        island, score, decision, text, links = rest
        id, data = Place(step, is_draft, k).id, unpack(text, links, self._blobs.get)
        if data.get("id") != id:  # a child that was never judged: the record of its step holds it
            data = next(each for each in data["children"] if each["id"] == id)
        found = data.get("evaluation") or NOTHING
        verdict, reason, by, version = json.loads(decision) if decision else (None, None, None, None)
        return Row(
            id=id,
            parents=tuple(data.get("parents", ())),
            island=island,
            step=step,
            content=data.get("content", ""),
            score=score,
            scores=tuple(found.get("scores", ())),
            metrics=found.get("metrics", NOTHING),
            feedback=found.get("feedback", ""),
            failure=found.get("failure"),
            meta=data.get("meta", NOTHING),
            verdict=verdict,
            reason=reason,
            by=by,
            version=version,
            is_draft=is_draft,
        )


def best_query(run: int, n: int, island: int | None) -> Select[Any]:
    query = _select(run).where(schema.ACCEPTED).order_by(_rows.score.desc(), _rows.decided, _rows.k).limit(n)
    return query if island is None else query.where(_rows.island == island)


def export(rows: Iterable[Row]) -> Iterator[str]:
    """Yields one line of JSON per candidate, without its line end; equal runs give equal bytes.

    There are no times, costs or places in the journal in it, and nothing else that depends on who came first.
    """
    for row in rows:
        data = {field.name: getattr(row, field.name) for field in fields(Row)}
        plain = {name: dict(value) if isinstance(value, Mapping) else value for name, value in data.items()}
        yield json.dumps(plain, sort_keys=True, allow_nan=False)


def _select(run: int) -> Select[Any]:
    return select(*_columns).select_from(_joined).where(_rows.run == run)
