"""What a model was asked and how good its answers were, for fine-tuning."""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from atoll import llm, store
from atoll.evaluation import Cost
from atoll.llm import recording
from atoll.runs import progress

type CallKey = tuple[int, int]  # step and call


class StepOutcome(NamedTuple):
    """What became of a step.

    Attributes:
        candidate: Its best child; None where there is none.
        failure: Why there is no score.
        is_applied: Its end is in the journal; a run that was cut leaves steps open.
    """

    candidate: str | None = None
    score: float | None = None
    parent_score: float | None = None
    failure: str | None = None
    is_applied: bool = False

    @property
    def improved(self) -> bool | None:
        """Whether it was better than the best parent; None where nobody knows."""
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
    """Yields one record per reply of a proposing model, by step and call; equal runs give equal records.

    The child of a step stands for all its replies; of several children, the best. What judges and gates asked is not
    among them.

    Raises:
        NotFound: There is no such run.
    """
    records = run_store.journal(run_id)
    last_index: dict[CallKey, int] = {}  # a call that was repeated after a cut counts once
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
    call = str(data.get("call", ""))  # a number; of a judge or a gate, a path that ends in one
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
    parent_scores = [
        score for score in (scores.get(id) for id in (row.parents if row else step.parents)) if score is not None
    ]
    parent_score = max(parent_scores, default=None)
    if row is None:
        failure = step.failure or ("the step gave no child" if step.is_applied else "the step was not finished")
        return StepOutcome(None, None, parent_score, failure, step.is_applied)
    return StepOutcome(row.id, row.score, parent_score, row.failure or _get_rejection_reason(row), step.is_applied)


def _get_rejection_reason(row: store.Row) -> str | None:
    """Returns why a child was never judged; None of one that has a score, whatever a gate said to it."""
    return row.reason if row.score is None else None


CSV_COLUMNS = ("id", "parents", "island", "step", "is_draft", "score", "verdict", "reason", "by", "version", "failure")

_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "\n")


def to_csv(rows: store.Candidates) -> Iterator[str]:
    """Yields a heading and one row per candidate, each with its line end; metrics have columns of their own.

    No text in it is taken for a formula by a spreadsheet: what would be begins with an apostrophe.
    """
    metrics = sorted({name for row in rows for name in row.metrics})
    yield _format_row([*CSV_COLUMNS, *(_escape_formula(f"metric {name}") for name in metrics), "feedback", "content"])
    for row in rows:
        base_cells = [
            _escape_formula(row.id),
            _escape_formula(" ".join(row.parents)),
            row.island,
            row.step,
            int(row.is_draft),
            row.score,
        ]
        decision_cells = [
            _escape_formula(value) for value in (row.verdict, row.reason, row.by, row.version, row.failure)
        ]
        metric_cells = [row.metrics.get(name) for name in metrics]
        yield _format_row(
            [*base_cells, *decision_cells, *metric_cells, _escape_formula(row.feedback), _escape_formula(row.content)]
        )


def _escape_formula(text: str | None) -> str | None:
    if text is None:
        return None
    encodable = text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()
    return f"'{encodable}" if encodable.startswith(_FORMULA_PREFIXES) else encodable


def _format_row(cells: list[str | float | None]) -> str:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()


def iter_responses(run_store: store.Store, run_id: str) -> Iterator[str]:
    """Yields the replies of a run as lines that `llm.Replay` reads, those of judges too, in the order of arrival.

    Raises:
        NotFound: There is no such run.
    """
    for record in run_store.journal(run_id).read_kinds("replied"):
        data = record.data
        if "prompt" in data and "text" in data:
            response = llm.Response(data["text"], str(data.get("model") or "unknown"), Cost(*data["usage"]))
            yield recording.format_line((record.step, str(data["call"])), data["prompt"], response)
