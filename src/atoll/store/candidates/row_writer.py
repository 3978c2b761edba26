"""Writes the rows of candidates, derived from the records of a run."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Engine, and_, bindparam, update

from atoll import journal
from atoll.store.database import schema
from atoll.store.database.database import PreparedStatement
from atoll.store.records import json_codec

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
