"""What a model was asked and how good its answers were, for fine-tuning."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from atoll import store
from atoll.runs import progress

type Place = tuple[int, int]  # step and call


class Outcome(NamedTuple):
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
class _Step:
    parents: tuple[str, ...] = ()
    best: store.Row | None = None
    failure: str | None = None
    is_applied: bool = False


def dataset(kept: store.Store, run: str) -> Iterator[dict[str, Any]]:
    """Yields one record per reply of a proposing model, by step and call; equal runs give equal records.

    The child of a step stands for all its replies; of several children, the best. What judges and gates asked is not
    among them.

    Raises:
        NotFound: There is no such run.
    """
    records = kept.journal(run)
    last: dict[Place, int] = {}  # a call that was repeated after a cut counts once
    for number, record in enumerate(records.of_kind("replied")):
        if (place := _place(record.step, record.data)) is not None:
            last[place] = number
    if not last:
        return
    outcomes = _outcomes(kept, run)
    due, early = iter(sorted(last)), dict[Place, dict[str, Any]]()
    wanted = next(due, None)
    for number, record in enumerate(records.of_kind("replied")):
        place = _place(record.step, record.data)
        if place is None or last.get(place) != number:
            continue
        early[place] = _record(record.step, record.data, outcomes.get(record.step, Outcome()))
        while wanted is not None and wanted in early:
            yield early.pop(wanted)
            wanted = next(due, None)


def _place(step: int, data: Mapping[str, Any]) -> Place | None:
    call = str(data.get("call", ""))  # a number; of a judge or a gate, a path that ends in one
    return (step, int(call)) if call.isdecimal() and "prompt" in data and "text" in data else None


def _record(step: int, data: Mapping[str, Any], outcome: Outcome) -> dict[str, Any]:
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


def _outcomes(kept: store.Store, run: str) -> Mapping[int, Outcome]:
    steps: dict[int, _Step] = {}
    scores: dict[str, float | None] = {}
    for record in kept.journal(run).of_kind("begun", "applied"):
        step = steps.setdefault(record.step, _Step())
        if record.kind == "begun":
            step.parents = tuple(record.data["parents"])
        else:
            step.is_applied, step.failure = True, record.data.get("failure")
    for row in kept.candidates(run):
        scores[row.id] = row.score
        if row.version is not None:
            scores[row.version] = row.score
        if row.is_draft or not row.step:
            continue
        step = steps.setdefault(row.step, _Step())
        if step.best is None or progress.score_of(row) > progress.score_of(step.best):
            step.best = row
    return {number: _outcome(step, scores) for number, step in steps.items()}


def _outcome(step: _Step, scores: Mapping[str, float | None]) -> Outcome:
    row = step.best
    known = [score for score in (scores.get(id) for id in (row.parents if row else step.parents)) if score is not None]
    parent_score = max(known, default=None)
    if row is None:
        why = step.failure or ("the step gave no child" if step.is_applied else "the step was not finished")
        return Outcome(None, None, parent_score, why, step.is_applied)
    return Outcome(row.id, row.score, parent_score, row.failure or _refusal(row), step.is_applied)


def _refusal(row: store.Row) -> str | None:
    """Returns why a child was never judged; None of one that has a score, whatever a gate said to it."""
    return row.reason if row.score is None else None
