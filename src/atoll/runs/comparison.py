"""Comparison of runs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atoll import store
from atoll.runs import progress
from atoll.runs.summary import Summary, summarize


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run in a comparison.

    Attributes:
        evaluations_to_best: Number of evaluations when the best candidate was accepted.
    """

    summary: Summary
    evaluations_to_best: int | None

    @property
    def gain(self) -> float | None:
        initial, best = self.summary.initial_score, self.summary.best_score
        return None if initial is None or best is None else best - initial

    @property
    def seconds(self) -> float | None:
        """Seconds of work of all workers, as measured by evaluators and LLMs."""
        return self.summary.totals.cost.seconds or None

    def to_data(self) -> dict[str, Any]:
        extra = {"gain": self.gain, "evaluations_to_best": self.evaluations_to_best, "work_seconds": self.seconds}
        return {**self.summary.to_data(), **extra}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Some runs side by side.

    Attributes:
        is_same_task: Whether all have the same task and files, so that their scores are comparable.
        better: The run with the best score, at equal scores the one with fewer evaluations; None if they are equal
            or not comparable.
        verdict: One sentence that says which is better and by how much.
    """

    entries: Sequence[ComparedRun]
    is_same_task: bool
    better: str | None
    verdict: str

    def to_data(self) -> dict[str, Any]:
        extra = {"same_task": self.is_same_task, "better": self.better, "verdict": self.verdict}
        return {"runs": [entry.to_data() for entry in self.entries], **extra}


def compare(run_store: store.Store, run_ids: Sequence[str]) -> Comparison:
    """Compares runs.

    Raises:
        NotFound: A run does not exist.
    """
    entries = [_load_entry(run_store, run_id) for run_id in run_ids]
    tasks = [get_task_key(run_store.get_run(run_id).config) for run_id in run_ids]
    is_same = tasks[0] is not None and all(task == tasks[0] for task in tasks)
    if not is_same:
        return Comparison(entries, False, None, "The runs have different tasks, so their scores are not comparable.")
    better, verdict = _find_better(entries)
    return Comparison(entries, True, better, verdict)


def get_task_key(stored_config: Mapping[str, Any]) -> str | None:
    """Returns a key that runs with comparable scores share: system, task settings and files; None if unknown."""
    if "example" in stored_config:
        return json.dumps(["example", stored_config["example"]])
    if "folder" not in stored_config:
        return None
    files = stored_config.get("files") or stored_config["folder"]
    return json.dumps([stored_config.get("system"), stored_config.get("task"), files], sort_keys=True)


def _load_entry(run_store: store.Store, run_id: str) -> ComparedRun:
    improvements = progress.find_improvements(run_store, run_id)
    return ComparedRun(summarize(run_store, run_id), improvements[-1].evaluations if improvements else None)


def _find_better(entries: Sequence[ComparedRun]) -> tuple[str | None, str]:
    scored = [entry for entry in entries if entry.summary.best_score is not None]
    if len(scored) < 2:
        return (scored[0].summary.run, "Only one of the runs has a score.") if scored else (None, "No run has a score.")
    first, second = sorted(scored, key=_get_sort_key)[:2]
    name, lead = first.summary.run, (first.summary.best_score or 0.0) - (second.summary.best_score or 0.0)
    if lead > 0:
        return name, f"{name} is better by {lead:.6g}."
    if _get_sort_key(first) == _get_sort_key(second):
        return None, "The runs are equal in their best score and their number of evaluations."
    fewer = (second.evaluations_to_best or 0) - (first.evaluations_to_best or 0)
    return name, f"The best scores are equal. {name} needed {fewer:,} fewer evaluations."


def _get_sort_key(entry: ComparedRun) -> tuple[float, int]:
    return -(entry.summary.best_score or 0.0), entry.evaluations_to_best or 0
