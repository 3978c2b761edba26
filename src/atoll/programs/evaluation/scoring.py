"""Opens the executor of a folder's evaluator, after a dry run on the initial program.

The dry run decides two things. The evaluator and its programs run apart, in two sandboxes, if that gives the same score
as together in one. If they run together, only the files that the evaluator opened are visible to programs.
"""

import fnmatch
import hashlib
import os
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from atoll import errors, executor, function, sandbox, system
from atoll.candidate import JSON
from atoll.evaluation import BlobRef, Evaluation
from atoll.programs.evaluation.cascade import ScoreFunction
from atoll.programs.evaluation.evaluator_job import ApartFunctionJob, FunctionJob
from atoll.programs.evaluation.folder_evaluator import FolderEvaluator

APART, TOGETHER, AUTO = "apart", "together", "auto"
APART_NOTE = sandbox.APART_NOTE
_HIDDEN = (".*", "*.db", "*.db-*", "*.sqlite*", "*.duckdb", "*.pem", "*.key", "id_rsa*")  # never exposed silently
_MAX_FILES = 1000
_TOLERANCE = 1e-9
_NOISE_FACTOR = 2.0  # standard deviations within which two means of scores agree
_TIME_SHARE = 1e-4  # of a score that varies: calls take longer apart, which a score by time shows
_NUM_COMPARISONS = 4  # evaluations in each mode, after the first, until noisy scores agree
_SLOWDOWN, _SLOW_SECONDS = 2.0, 0.5  # apart may take this much longer than together


class OpenedEvaluator(NamedTuple):
    """Executor of an evaluator, and what the header of the run says about it.

    Attributes:
        executor: Runs the evaluator.
        scoring: Where the evaluator runs, and why.
        visible: Files of the evaluator's folder that programs can read.
    """

    executor: executor.LocalExecutor
    scoring: str
    visible: str = ""


@dataclass(frozen=True, slots=True)
class EvaluatorFiles:
    """The files of a task and how a dry run scores them.

    Attributes:
        path: The evaluator.
        source: Text of the evaluator.
        suffix: Suffix of the program's file.
        program: Text of the initial program.
        stages: Functions of the evaluator, in order.
        thresholds: Scores that start the next stage.
        score_function: Computes the score.
    """

    path: str
    source: str
    suffix: str
    program: str
    stages: Sequence[str]
    thresholds: Sequence[float]
    score_function: ScoreFunction

    @property
    def folder(self) -> str:
        return os.path.dirname(self.path)


def open_evaluator(files: EvaluatorFiles, config: executor.ExecutorConfig) -> OpenedEvaluator:
    """Opens the executor; the setting `sandbox.scoring` or a dry run decides where the evaluator runs.

    Raises:
        SetupError: The evaluator cannot be loaded, or `apart` is required and does not work.
    """
    obstacle = _find_obstacle(files, config)
    if config.scoring == TOGETHER or (obstacle and config.scoring == AUTO):
        return _open_together(files, config, obstacle)
    if obstacle:
        raise errors.SetupError(f"Scoring apart is not possible: {obstacle}. Use --scoring together.")
    try:
        apart = _open_apart(files, config)
    except errors.SetupError as error:
        if config.scoring == APART:
            raise
        return _open_together(files, config, f"apart, it does not load: {error}")
    if config.scoring == APART:
        return OpenedEvaluator(apart, APART_NOTE)
    try:
        return _choose(files, config, apart)
    except BaseException:
        apart.close()
        raise


def score_initial(inner: executor.LocalExecutor, files: EvaluatorFiles) -> float | None:
    """Returns the score of the initial program in a dry run; None if it failed."""
    return _try(inner, files).evaluation.score


def _choose(files: EvaluatorFiles, config: executor.ExecutorConfig, apart: executor.LocalExecutor) -> OpenedEvaluator:
    """Chooses by dry runs on the initial program."""
    trial = _try(apart, files)
    reason = trial.describe_obstacle()
    if not reason:
        with _open_shared(files, config, None) as shared:
            together = _try(shared, files)
            reason = _compare(trial, together, lambda: _try(shared, files), lambda: _try(apart, files))
    if not reason:
        return OpenedEvaluator(apart, APART_NOTE)
    apart.close()
    return _open_together(files, config, reason)


def _find_obstacle(files: EvaluatorFiles, config: executor.ExecutorConfig) -> str:
    """Returns the reason why scoring apart cannot work; empty if a dry run may try it."""
    if files.suffix != ".py":
        return "the program is not a Python file"
    return config.find_obstacle()


def _open_apart(files: EvaluatorFiles, config: executor.ExecutorConfig) -> executor.LocalExecutor:
    modules = sandbox.find_modules(files.program, files.source)
    make_job = partial(ApartFunctionJob, files.path, files.suffix)
    make_program_job = partial(sandbox.ProgramJob, modules)
    return config.open_apart(make_job, make_program_job, files.source, files.folder)


def _open_shared(
    files: EvaluatorFiles, config: executor.ExecutorConfig, read_paths: Sequence[str] | None
) -> executor.LocalExecutor:
    """Opens an executor where evaluator and program share a sandbox; None: with the evaluator's folder."""
    return config.open(partial(FunctionJob, files.path, files.suffix), files.source, files.folder, read_paths)


def _open_together(files: EvaluatorFiles, config: executor.ExecutorConfig, reason: str) -> OpenedEvaluator:
    """Opens a shared sandbox in which only the needed files of the evaluator's folder are visible."""
    scoring = f"{system.SHARED_SANDBOX_RISK} ({reason})" if reason else system.SHARED_SANDBOX_RISK
    is_open = config.is_trusted or sandbox.get_level(sandbox.probe()) < "L2"
    if is_open or not sandbox.permissions_from_source(files.source, files.folder).read_paths:
        return OpenedEvaluator(_open_shared(files, config, None), scoring)
    with _open_shared(files, config, None) as shared:
        trial = _try(shared, files)
    hidden = [path for path in trial.opened if _is_hidden(path, files.folder)]
    needed = [path for path in trial.opened if path not in hidden]
    narrow = _open_shared(files, config, needed)
    if trial.evaluation.failure is None and _try(narrow, files).evaluation.failure is not None and not hidden:
        narrow.close()  # it opens files in a way that cannot be recorded
        needed = list(_iter_files(files.folder))
        narrow = _open_shared(files, config, needed)
    return OpenedEvaluator(narrow, scoring, _describe_visible(files.folder, needed, hidden))


class _Trial(NamedTuple):
    """Dry run on the initial program.

    Attributes:
        evaluation: Its result.
        obstacles: What the evaluator needs that a stand-in cannot give.
        opened: Files and folders below the evaluator's folder that it opened or listed.
    """

    evaluation: Evaluation
    obstacles: Sequence[str]
    opened: Sequence[str]

    def describe_obstacle(self) -> str:
        if self.obstacles:
            return "; ".join(self.obstacles)
        return f"apart, the initial program fails: {self.evaluation.failure}" if self.evaluation.failure else ""


def _compare(trial: _Trial, together: _Trial, try_together: Any, try_apart: Any) -> str:
    """Returns why a program is not scored apart; an empty text if the scores agree up to their noise."""
    first, apart = together.evaluation.score, trial.evaluation.score
    seconds, apart_seconds = together.evaluation.cost.seconds, trial.evaluation.cost.seconds
    if first is None or apart is None:
        return "the initial program fails"
    if apart_seconds > _SLOWDOWN * seconds + _SLOW_SECONDS:
        return f"apart, an evaluation takes {apart_seconds:.1f} s instead of {seconds:.1f} s"
    if _is_close(first, apart):
        return ""
    scores, apart_scores = [first], [apart]
    for _ in range(_NUM_COMPARISONS):
        again, apart_again = try_together().evaluation.score, try_apart().evaluation.score
        if again is None or apart_again is None:
            return "the initial program fails"
        scores.append(again)
        apart_scores.append(apart_again)
        noise = _NOISE_FACTOR * max(statistics.pstdev(scores), statistics.pstdev(apart_scores))
        is_varying = noise > _TOLERANCE * abs(first)
        noise = max(noise, _TIME_SHARE * abs(first)) if is_varying else noise
        if abs(statistics.fmean(scores) - statistics.fmean(apart_scores)) <= noise:
            return ""
        if not is_varying:
            break  # the scores do not vary, they differ
    return f"apart, the initial program scores {apart:g} instead of {first:g}"


def _is_close(a: float, b: float) -> bool:
    return abs(a - b) <= _TOLERANCE * max(abs(a), abs(b))


@dataclass(slots=True)
class _WatchedExecutor:
    """Runs each request as a dry run and collects what it says."""

    inner: executor.LocalExecutor
    obstacles: list[str] = field(default_factory=list)
    opened: set[str] = field(default_factory=set)

    @property
    def level(self) -> str:
        return self.inner.level

    def run(self, request: JSON) -> sandbox.SandboxResult:
        assert isinstance(request, dict)
        response = self.inner.run({**request, "watch": True})
        match response.value:
            case {"result": result, "opened": list() as opened, "reads_source": bool() as reads_source, **rest}:
                self.opened |= {str(path) for path in opened}
                notes = rest.get("obstacles")
                self.obstacles += [str(note) for note in notes] if isinstance(notes, list) else []
                self.obstacles += ["it reads the program's source"] if reads_source else []
                return replace(response, value=result)
        return response

    def close(self) -> None:
        self.inner.close()


class _NoBlobs:
    """Forgets the artifacts of a dry run."""

    def save_blob(self, data: bytes) -> BlobRef:
        return BlobRef(hashlib.sha256(data).hexdigest(), len(data), "")

    def load_blob(self, ref: BlobRef) -> bytes:
        raise errors.NotFound(f"blob {ref.sha256} not found")


def _try(inner: executor.LocalExecutor, files: EvaluatorFiles) -> _Trial:
    watched = _WatchedExecutor(inner)
    evaluator = FolderEvaluator(watched, _NoBlobs(), files.stages, files.thresholds, files.score_function)
    return _Trial(evaluator(function.Text(files.program)), watched.obstacles, sorted(watched.opened))


def _is_hidden(path: str, folder: str) -> bool:
    names = os.path.relpath(path, folder).split(os.sep)
    return any(fnmatch.fnmatch(name, pattern) for name in names for pattern in _HIDDEN)


def _iter_files(folder: str) -> Iterator[str]:
    """Yields the files of a folder that may be visible."""
    count = 0
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _is_hidden(os.path.join(parent, name), folder)]
        for name in names:
            path = os.path.join(parent, name)
            if count < _MAX_FILES and not _is_hidden(path, folder):
                count += 1
                yield path


def _describe_visible(folder: str, paths: Sequence[str], hidden: Sequence[str]) -> str:
    names = [os.path.relpath(path, folder) for path in paths]
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    text = f"candidates can read {', '.join(names[:10])}{more}" if names else "candidates can read none of its files"
    if hidden:
        text += f"; hidden: {', '.join(os.path.relpath(path, folder) for path in hidden)} (allow with sandbox.reads)"
    return text
