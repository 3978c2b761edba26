"""OpenEvolve checkpoints, imported as the first iterations of a run.

The programs become children of the first iterations, in their original order, distributed over the islands. They keep
the scores of the checkpoint and are not evaluated again.
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
from atoll.programs.evaluation.cascade import ScoreFunction

IMPORT_ENGINE = "import"  # in the `meta` of imported children
CHECKPOINT_NAME = re.compile(r"checkpoint_(\d+)")
MAX_BYTES = 64 * 2**20  # of one program's file


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


def read_programs(folder: Path) -> Sequence[Program]:
    """Returns the programs of a checkpoint in their original order.

    Args:
        folder: `checkpoint_N`, or a folder with checkpoints, whose last one is used.

    Raises:
        SetupError: The folder has no checkpoint, or a damaged one; the message names the file.
    """
    checkpoint = _find_checkpoint(folder)
    programs = [_read_program(file) for file in sorted((checkpoint / "programs").glob("*.json"))]
    if not programs:
        raise errors.SetupError(f"{checkpoint} has no programs: pass an OpenEvolve checkpoint, checkpoint_N.")
    return sorted(programs, key=lambda program: (program.iteration, program.id))


def list_files(folder: Path) -> Sequence[Path]:
    """Returns the program files of a checkpoint."""
    return sorted((_find_checkpoint(folder) / "programs").glob("*.json"))


def find_task_folder(folder: Path) -> Path | None:
    """Returns the task folder that contains this checkpoint, if there is one."""
    return next((parent for parent in folder.absolute().parents if (parent / "evaluator.py").is_file()), None)


def _find_checkpoint(folder: Path) -> Path:
    if not folder.is_dir():
        raise errors.SetupError(f"Folder {folder} not found: pass an OpenEvolve checkpoint, checkpoint_N.")
    if (folder / "programs").is_dir():
        return folder
    numbered = [
        (int(match[1]), path)
        for path in folder.rglob("checkpoint_*")
        if (match := CHECKPOINT_NAME.fullmatch(path.name))
    ]
    checkpoints = [path for _, path in sorted(numbered) if (path / "programs").is_dir()]
    if not checkpoints:
        raise errors.SetupError(f"{folder} is not an OpenEvolve checkpoint: it has no folder 'programs'.")
    return checkpoints[-1]


def _read_program(file: Path) -> Program:
    try:
        data = json.loads(_read_text(file))
        code, raw_metrics = data["code"], data.get("metrics") or {}
        iteration = data.get("iteration_found") or 0
        if not (isinstance(code, str) and isinstance(raw_metrics, dict) and isinstance(iteration, int)):
            raise TypeError("'code' must be a string, 'metrics' an object and 'iteration_found' an integer")
        code.encode()
    except OSError as error:
        raise errors.SetupError(f"{file} cannot be read: {error.strerror}.") from error
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise errors.SetupError(f"{file} is not a checkpoint program: {reason}.") from error
    metrics = {name: float(value) for name, value in raw_metrics.items() if _is_number(value)}
    parent = data.get("parent_id")
    program_id = str(data.get("id") or file.stem)
    return Program(program_id, code, str(parent) if parent else None, iteration, metrics, _parse_artifacts(data))


def _read_text(file: Path) -> str:
    """Returns the text of a regular file. Pipes and devices, which may never end, are refused.

    Raises:
        OSError: It cannot be opened.
        ValueError: It is not a regular file, or too large.
    """
    # O_NONBLOCK: opening a pipe without a writer would block.
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        body = stream.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        raise ValueError(f"it has over {MAX_BYTES // 2**20} MiB")
    return body.decode("utf-8")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _parse_artifacts(data: Mapping[str, Any]) -> Mapping[str, str]:
    try:
        artifacts = json.loads(data.get("artifacts_json") or "{}")
    except (ValueError, TypeError, RecursionError):
        return {}
    return {str(name): str(body) for name, body in artifacts.items()} if isinstance(artifacts, dict) else {}


@dataclass(frozen=True, slots=True)
class CheckpointProposer:
    """Proposes the programs of a checkpoint in the first iterations, then delegates to another proposer."""

    programs: Sequence[Program]
    proposer: function.Proposer

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        if context.iteration > len(self.programs):
            return self.proposer.propose(context)
        program, parent = self.programs[context.iteration - 1], context.parents[-1]
        candidate_ids = {earlier.id: f"{iteration}.0" for iteration, earlier in enumerate(self.programs, 1)}
        meta: dict[str, candidate.JSON] = {"engine": IMPORT_ENGINE, "id": program.id, "iteration": program.iteration}
        child = candidate.Candidate("", program.code, (candidate_ids.get(program.parent or "", "0.0"),), meta=meta)
        return [parent.clone(function.Text(program.code)).with_evaluation(child)]


@dataclass(frozen=True, slots=True)
class CheckpointFilter:
    """A prefilter that accepts imported programs and delegates all others."""

    prefilter: gate.Gate

    def __call__(self, proposal: gate.Proposal) -> gate.Decision:
        if proposal.candidate.meta.get("engine") == IMPORT_ENGINE:
            return gate.Decision("accept", "imported from a checkpoint", IMPORT_ENGINE)
        return self.prefilter(proposal)


class CheckpointEvaluator:
    """Returns the stored scores of imported programs and delegates all others to an evaluator."""

    def __init__(
        self,
        programs: Sequence[Program],
        evaluator: function.CandidateEvaluator,
        score_function: ScoreFunction,
        blobs: system.BlobStore,
    ) -> None:
        self._evaluator = evaluator
        self._evaluations = {
            program.code: _make_evaluation(program, score_function, blobs) for program in reversed(programs)
        }

    def __call__(self, skeleton: function.Skeleton[..., Any]) -> Evaluation:
        return self._evaluations.get(str(skeleton)) or self._evaluator(skeleton)


def _make_evaluation(program: Program, score_function: ScoreFunction, blobs: system.BlobStore) -> Evaluation:
    """Returns the stored evaluation; OpenEvolve marks a failure by `error` as the only metric."""
    texts = {**program.artifacts, "checkpoint": f"The scores are those of {program.id} in the checkpoint."}
    artifacts = {name: blobs.save_blob(text.encode("utf-8", "replace")) for name, text in texts.items()}
    score = None if not program.metrics.keys() - {"error", "timeout"} else score_function.score(program.metrics)
    failure = None if score is not None else "the checkpoint has no score for it"
    scores = (score,) if score is not None else ()
    return evaluation.validate(Evaluation(score, scores, program.metrics, "", artifacts, failure))
