"""Checkpoints of OpenEvolve: read, and used as the first steps of a run.

Its programs become children of the first steps, in the order in which they were found, dealt out to the islands in
turn. They keep the scores that the checkpoint has: nothing is judged again.
"""

import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from atoll import candidate, errors, evaluation, function, gate, system
from atoll.evaluation import Evaluation
from atoll.programs.stages import Measure

ENGINE = "import"  # what the children note
NUMBERED = re.compile(r"checkpoint_(\d+)")
MOST_BYTES = 64 * 2**20  # of one program's file


class Program(NamedTuple):
    """One program of a checkpoint.

    Attributes:
        artifacts: Named texts.
    """

    id: str
    code: str
    parent: str | None
    iteration: int
    metrics: Mapping[str, float]
    artifacts: Mapping[str, str]


def read(folder: Path) -> Sequence[Program]:
    """Returns the programs of a checkpoint in the order in which they were found.

    Args:
        folder: `checkpoint_N`, or a folder of checkpoints, of which the last counts, or an output folder.

    Raises:
        SetupError: It holds no checkpoint, or one that is damaged; the message names the file.
    """
    place = _place(folder)
    programs = [_program(file) for file in sorted((place / "programs").glob("*.json"))]
    if not programs:
        raise errors.SetupError(f"{place} holds no programs: give a checkpoint of OpenEvolve, checkpoint_N.")
    return sorted(programs, key=lambda each: (each.iteration, each.id))


def files_of(folder: Path) -> Sequence[Path]:
    """Returns the files that hold the programs of a checkpoint."""
    return sorted((_place(folder) / "programs").glob("*.json"))


def task_of(folder: Path) -> Path | None:
    """Returns the task's folder that an output folder with this checkpoint stands in, if it does."""
    return next((above for above in folder.absolute().parents if (above / "evaluator.py").is_file()), None)


def _place(folder: Path) -> Path:
    if not folder.is_dir():
        raise errors.SetupError(f"There is no folder {folder}: give a checkpoint of OpenEvolve, checkpoint_N.")
    if (folder / "programs").is_dir():
        return folder
    numbered = [
        (int(found[1]), path) for path in folder.rglob("checkpoint_*") if (found := NUMBERED.fullmatch(path.name))
    ]
    places = [path for _, path in sorted(numbered) if (path / "programs").is_dir()]
    if not places:
        raise errors.SetupError(f"{folder} is no checkpoint of OpenEvolve: it holds no folder 'programs'.")
    return places[-1]


def _program(file: Path) -> Program:
    try:
        data = json.loads(_text(file))
        code, found = data["code"], data.get("metrics") or {}
        iteration = data.get("iteration_found") or 0
        if not (isinstance(code, str) and isinstance(found, dict) and isinstance(iteration, int)):
            raise TypeError("'code' must be a text, 'metrics' an object and 'iteration_found' a whole number")
        code.encode()
    except OSError as error:
        raise errors.SetupError(f"{file} cannot be read: {error.strerror}.") from error
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise errors.SetupError(f"{file} is no program of a checkpoint: {what}.") from error
    metrics = {name: float(value) for name, value in found.items() if _is_number(value)}
    parent = data.get("parent_id")
    named = str(data.get("id") or file.stem)
    return Program(named, code, str(parent) if parent else None, iteration, metrics, _artifacts(data))


def _text(file: Path) -> str:
    """Returns what a plain file holds, or one that a link leads to; a pipe or a device could go on for ever.

    Raises:
        OSError: It cannot be opened.
        ValueError: It is something else, or too large.
    """
    # Without waiting: a pipe that nobody writes would never open.
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb") as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise ValueError("it is no plain file")
        body = opened.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        raise ValueError(f"it has over {MOST_BYTES // 2**20} MiB")
    return body.decode("utf-8")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _artifacts(data: Mapping[str, Any]) -> Mapping[str, str]:
    try:
        found = json.loads(data.get("artifacts_json") or "{}")
    except (ValueError, TypeError, RecursionError):
        return {}
    return {str(name): str(body) for name, body in found.items()} if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class Imported:
    """Proposes the programs of a checkpoint in the first steps, and hands over to another proposer after them."""

    programs: Sequence[Program]
    proposer: function.Proposer

    def propose(self, task: function.Task) -> Sequence[function.Function]:
        if task.step > len(self.programs):
            return self.proposer.propose(task)
        found, parent = self.programs[task.step - 1], task.parents[-1]
        steps = {each.id: f"{step}.0" for step, each in enumerate(self.programs, 1)}
        meta: dict[str, candidate.JSON] = {"engine": ENGINE, "id": found.id, "iteration": found.iteration}
        made = candidate.Candidate("", found.code, (steps.get(found.parent or "", "0.0"),), meta=meta)
        return [parent.clone(function.Text(found.code)).settle(made)]


@dataclass(frozen=True, slots=True)
class Unscreened:
    """A screen that lets in what comes from a checkpoint, and asks another one about all else."""

    screen: gate.Gate

    def __call__(self, proposal: gate.Proposal) -> gate.Decision:
        if proposal.candidate.meta.get("engine") == ENGINE:
            return gate.Decision("accept", "it is a checkpoint's", ENGINE)
        return self.screen(proposal)


class Remembering:
    """A judge that knows what a checkpoint says of its programs, and asks another one about all others."""

    def __init__(
        self, programs: Sequence[Program], judge: function.Judge, measure: Measure, bodies: system.Bodies
    ) -> None:
        self._judge = judge
        self._known = {each.code: _evaluation(each, measure, bodies) for each in reversed(programs)}

    def __call__(self, skeleton: function.Skeleton[..., Any]) -> Evaluation:
        return self._known.get(str(skeleton)) or self._judge(skeleton)


def _evaluation(program: Program, measure: Measure, bodies: system.Bodies) -> Evaluation:
    """Returns what the checkpoint says; an `error` and nothing else is OpenEvolve's mark of a failure."""
    told = {**program.artifacts, "checkpoint": f"The scores are those of {program.id} in the checkpoint."}
    artifacts = {name: bodies.hold(text.encode("utf-8", "replace")) for name, text in told.items()}
    score = None if not program.metrics.keys() - {"error", "timeout"} else measure.score(program.metrics)
    failure = None if score is not None else "the checkpoint has no score of it"
    scores = (score,) if score is not None else ()
    return evaluation.clean(Evaluation(score, scores, program.metrics, "", artifacts, failure))
