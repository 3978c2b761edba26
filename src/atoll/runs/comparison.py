"""Runs side by side."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atoll import store
from atoll.runs import progress
from atoll.runs.summary import Summary, summarise


@dataclass(frozen=True, slots=True)
class Entry:
    """One run in a comparison.

    Attributes:
        evaluations_to_best: Candidates judged when the best was accepted.
    """

    summary: Summary
    evaluations_to_best: int | None

    @property
    def gain(self) -> float | None:
        start, best = self.summary.initial_score, self.summary.best_score
        return None if start is None or best is None else best - start

    @property
    def seconds(self) -> float | None:
        """Seconds of work, over all workers, as far as judges and models measured them."""
        return self.summary.totals.cost.seconds or None

    def to_data(self) -> dict[str, Any]:
        more = {"gain": self.gain, "evaluations_to_best": self.evaluations_to_best, "work_seconds": self.seconds}
        return {**self.summary.to_data(), **more}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Some runs side by side.

    Attributes:
        is_same_task: All have the same task with the same files, so that their scores compare.
        better: The run with the best score, at equal score the one that took fewer evaluations to it; None where
            nothing tells them apart or their scores do not compare.
        verdict: Which is better and by how much, in a sentence.
    """

    entries: Sequence[Entry]
    is_same_task: bool
    better: str | None
    verdict: str

    def to_data(self) -> dict[str, Any]:
        said = {"same_task": self.is_same_task, "better": self.better, "verdict": self.verdict}
        return {"runs": [entry.to_data() for entry in self.entries], **said}


def compare(kept: store.Store, runs: Sequence[str]) -> Comparison:
    """Puts runs side by side.

    Raises:
        NotFound: There is no such run.
    """
    entries = [_entry(kept, run) for run in runs]
    tasks = [task_of(kept.run(run).config) for run in runs]
    is_same = tasks[0] is not None and all(task == tasks[0] for task in tasks)
    if not is_same:
        return Comparison(entries, False, None, "The runs have different tasks, so their scores do not compare.")
    better, verdict = _better(entries)
    return Comparison(entries, True, better, verdict)


def task_of(config: Mapping[str, Any]) -> str | None:
    """Returns what is equal for runs whose scores compare: the system, the task's settings and its files."""
    if "example" in config:
        return json.dumps(["example", config["example"]])
    if "folder" not in config:
        return None
    where = config.get("files") or config["folder"]
    return json.dumps([config.get("system"), config.get("task"), where], sort_keys=True)


def _entry(kept: store.Store, run: str) -> Entry:
    steps = progress.improvements(kept, run)
    return Entry(summarise(kept, run), steps[-1].evaluations if steps else None)


def _better(entries: Sequence[Entry]) -> tuple[str | None, str]:
    scored = [entry for entry in entries if entry.summary.best_score is not None]
    if len(scored) < 2:
        return (scored[0].summary.run, "Only one of the runs has a score.") if scored else (None, "No run has a score.")
    first, second = sorted(scored, key=_place)[:2]
    name, lead = first.summary.run, (first.summary.best_score or 0.0) - (second.summary.best_score or 0.0)
    if lead > 0:
        return name, f"{name} is better, by {lead:.6g}."
    if _place(first) == _place(second):
        return None, "They are equal, in the best score and in the evaluations it took."
    fewer = (second.evaluations_to_best or 0) - (first.evaluations_to_best or 0)
    return name, f"Their best scores are equal; {name} took {fewer:,} fewer evaluations to it."


def _place(entry: Entry) -> tuple[float, int]:
    return -(entry.summary.best_score or 0.0), entry.evaluations_to_best or 0
