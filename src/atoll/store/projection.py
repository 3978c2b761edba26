"""Rows about candidates, from the records as they are written."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Engine, and_, bindparam, update

from atoll import journal
from atoll.store import packing, schema
from atoll.store.database import Prepared

FOUNDED = ("accept", "founded", "atoll", None)

# Up to 18 digits, which fit into a column: what is longer is the id of no candidate.
_ID = re.compile(r"(0|[1-9][0-9]{0,17})\.(d?)(0|[1-9][0-9]{0,17})")


class Place(NamedTuple):
    """Where a candidate stands in the order of its run; the number form of its id."""

    step: int
    is_draft: bool
    k: int

    @property
    def id(self) -> str:
        return f"{self.step}.{'d' if self.is_draft else ''}{self.k}"


def place(id: object) -> Place | None:
    """Reads the id of a child (`7.0`) or a draft (`7.d0`); None for anything else."""
    found = _ID.fullmatch(id) if isinstance(id, str) else None
    return Place(int(found[1]), bool(found[2]), int(found[3])) if found else None


class Projection:
    """Gathers what some records of a run say about candidates: where each is found, and what was decided.

    A row points at the record that holds the content, so that no text is stored twice. A record whose data is about
    no candidate changes nothing here: the journal takes it all the same.
    """

    def __init__(self, run: int) -> None:
        self._run = run
        self.found: list[tuple[Any, ...]] = []
        self.decided: list[tuple[Any, ...]] = []

    def take(self, seq: int, record: journal.Record) -> None:
        data = record.data
        match record.kind:
            case "judged":
                self._find(seq, record.island, data)
            case "founded":
                self._find(seq, record.island, data)
                self._decide(seq, data.get("id"), FOUNDED)
            case "applied":
                for child in data.get("children", ()):
                    if "content" in child:  # it was never judged
                        self._find(seq, record.island, child)
                    self._decide(seq, child.get("id"), child["decision"])
            case "decided":
                self._decide(seq, data.get("id"), data["decision"])

    def _find(self, seq: int, island: int, data: Mapping[str, Any]) -> None:
        if where := place(data.get("id")):
            score = (data.get("evaluation") or {}).get("score")
            self.found.append((self._run, *where, data.get("island", island), seq, score))

    def _decide(self, seq: int, id: object, decision: Sequence[Any]) -> None:
        if where := place(id):
            verdict, *_, version = decision
            self.decided.append((verdict, version, packing.encode(decision), seq, self._run, *where))


class Writer:
    """Writes projections."""

    def __init__(self, engine: Engine) -> None:
        table = schema.candidates
        key = [column.name for column in table.primary_key]
        fresh = schema.insert_for(engine.dialect.name)(table)
        fresh = fresh.on_conflict_do_update(  # a step that runs again may judge something else under the same id
            index_elements=key, set_={name: fresh.excluded[name] for name in ("island", "seq", "score")}
        )
        self._find = Prepared(engine, fresh, [*key, "island", "seq", "score"])
        here = and_(*(table.c[name] == bindparam(f"its_{name}") for name in key))
        columns = ["verdict", "version", "decision", "decided"]
        self._decide = Prepared(engine, update(table).where(here), [*columns, *(f"its_{name}" for name in key)])

    def write(self, cursor: Any, projection: Projection) -> None:
        if projection.found:
            self._find.run(cursor, projection.found)
        if projection.decided:
            self._decide.run(cursor, projection.decided)
