"""Exports of a run: rows for fine-tuning, CSV, and recorded LLM responses."""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from atoll import llm, store
from atoll.evaluation import Cost
from atoll.llm import recording
from atoll.runs import progress

type CallKey = tuple[int, int]  # iteration and call


class StepOutcome(NamedTuple):
    """Outcome of an iteration.

    Attributes:
        candidate: Best child; None if it has none.
        failure: Why it has no score.
        is_applied: Whether it is finished. A crashed run leaves iterations unfinished.
    """

    candidate: str | None = None
    score: float | None = None
    parent_score: float | None = None
    failure: str | None = None
    is_applied: bool = False

    @property
    def improved(self) -> bool | None:
        """Returns whether it was better than the best parent; None if unknown."""
        if not self.is_applied:
            return None
        if self.score is None:
            return False
        return None if self.parent_score is None else self.score > self.parent_score


@dataclass(slots=True)
class _StepData:
    parents: tuple[str, ...] = ()
    best: store.Row | None = None
    failure: str | None = None
    is_applied: bool = False


def iter_finetuning_rows(run_store: store.Store, run_id: str) -> Iterator[dict[str, Any]]:
    """Yields one row per LLM response to a proposer, by iteration and call; equal runs give equal rows.

    All responses of an iteration get the score of its best child. Calls of evaluators and gates are left out.
    """
    records = run_store.journal(run_id)
    last_index: dict[CallKey, int] = {}  # a call repeated after a crash counts once
    for index, record in enumerate(records.read_kinds("replied")):
        if (key := _parse_call_key(record.step, record.data)) is not None:
            last_index[key] = index
    if not last_index:
        return
    outcomes = _load_outcomes(run_store, run_id)
    pending_keys, ready_rows = iter(sorted(last_index)), dict[CallKey, dict[str, Any]]()
    next_key = next(pending_keys, None)
    for index, record in enumerate(records.read_kinds("replied")):
        key = _parse_call_key(record.step, record.data)
        if key is None or last_index.get(key) != index:
            continue
        ready_rows[key] = _make_row(record.step, record.data, outcomes.get(record.step, StepOutcome()))
        while next_key is not None and next_key in ready_rows:
            yield ready_rows.pop(next_key)
            next_key = next(pending_keys, None)


def _parse_call_key(step: int, data: Mapping[str, Any]) -> CallKey | None:
    call = str(data.get("call", ""))  # a number; for evaluators and gates a path
    return (step, int(call)) if call.isdecimal() and "prompt" in data and "text" in data else None


def _make_row(step: int, data: Mapping[str, Any], outcome: StepOutcome) -> dict[str, Any]:
    return {
        "prompt": data["prompt"],
        "reply": data["text"],
        "model": data.get("model"),
        "score": outcome.score,
        "improved": outcome.improved,
        "parent_score": outcome.parent_score,
        "candidate": outcome.candidate,
        "step": step,
        "failure": outcome.failure,
    }


def _load_outcomes(run_store: store.Store, run_id: str) -> Mapping[int, StepOutcome]:
    steps: dict[int, _StepData] = {}
    scores: dict[str, float | None] = {}
    for record in run_store.journal(run_id).read_kinds("begun", "applied"):
        step = steps.setdefault(record.step, _StepData())
        if record.kind == "begun":
            step.parents = tuple(record.data["parents"])
        else:
            step.is_applied, step.failure = True, record.data.get("failure")
    for row in run_store.candidates(run_id):
        scores[row.id] = row.score
        if row.version is not None:
            scores[row.version] = row.score
        if row.is_draft or not row.step:
            continue
        step = steps.setdefault(row.step, _StepData())
        if step.best is None or progress.get_sort_score(row) > progress.get_sort_score(step.best):
            step.best = row
    return {index: _make_outcome(step, scores) for index, step in steps.items()}


def _make_outcome(step: _StepData, scores: Mapping[str, float | None]) -> StepOutcome:
    row = step.best
    all_scores = [scores.get(id) for id in (row.parents if row else step.parents)]
    parent_score = max((score for score in all_scores if score is not None), default=None)
    if row is None:
        # Words of version 0.1: exported data sets keep their bytes.
        failure = step.failure or ("the step gave no child" if step.is_applied else "the step was not finished")
        return StepOutcome(None, None, parent_score, failure, step.is_applied)
    rejection = row.reason if row.score is None else None  # by a prefilter, before the evaluation
    return StepOutcome(row.id, row.score, parent_score, row.failure or rejection, step.is_applied)


CSV_COLUMNS = ("id", "parents", "island", "step", "is_draft", "score", "verdict", "reason", "by", "version", "failure")

_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "\n")


def to_csv(rows: store.Candidates) -> Iterator[str]:
    """Yields a heading and one row per candidate, with line ends. Each metric has its own column.

    Text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    metrics = sorted({name for row in rows for name in row.metrics})
    yield _format_row([*CSV_COLUMNS, *(_escape_formula(f"metric {name}") for name in metrics), "feedback", "content"])
    for row in rows:
        cells: list[str | float | None] = [row.id, " ".join(row.parents), row.island, row.step, int(row.is_draft)]
        cells += [row.score, row.verdict, row.reason, row.by, row.version, row.failure]
        cells += [*(row.metrics.get(name) for name in metrics), row.feedback, row.content]
        yield _format_row([_escape_formula(cell) if isinstance(cell, str) else cell for cell in cells])


def _escape_formula(text: str) -> str:
    encodable = text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()
    return f"'{encodable}" if encodable.startswith(_FORMULA_PREFIXES) else encodable


def _format_row(cells: list[str | float | None]) -> str:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()


def iter_responses(run_store: store.Store, run_id: str) -> Iterator[str]:
    """Yields all LLM responses of a run as lines for `llm.RecordedLLM`, in the order of arrival."""
    for record in run_store.journal(run_id).read_kinds("replied"):
        data = record.data
        if "prompt" in data and "text" in data:
            response = llm.Response(data["text"], str(data.get("model") or "unknown"), Cost(*data["usage"]))
            yield recording.format_line((record.step, str(data["call"])), data["prompt"], response)
