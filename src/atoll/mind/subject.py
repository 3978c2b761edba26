"""What a run is about: problems, their judge, and where that came from."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from atoll import errors, function, system
from atoll.candidate import JSON
from atoll.mind import fitness, judge
from atoll.mind.config import Options, Task
from atoll.mind.tasks import data, grading, making
from atoll.mind.tasks.problem import Problem

WORKSPACE = "atoll.mind.workspace.build"  # has subject(task, options, parts) -> Subject


@dataclass(frozen=True, slots=True)
class Subject:
    """What is searched for.

    Attributes:
        problems: In the order in which they take turns.
        judge: Judges candidates of all of them, by their first line.
        source: Where they come from, for people.
        files: What a run that goes on needs unchanged.
        grade: Compares plans, by their problems' ids, with solutions that the search has not seen.
        keep: Makes the best plans last, by their problems' ids, before all is closed, and says where they are.
        sandbox: Where candidates run.
        close: Ends what was started.
    """

    problems: Sequence[Problem]
    judge: function.Judge
    source: str
    files: Sequence[Path] = ()
    grade: Callable[[Mapping[str, str]], Mapping[str, bool | None]] = field(default=lambda plans: {})
    keep: Callable[[Mapping[str, str]], Mapping[str, JSON]] = field(default=lambda plans: {})
    sandbox: str = "none: plans are data"
    close: Callable[[], None] = lambda: None
    extra: Mapping[str, JSON] = field(default_factory=dict)


def make(task: Task, options: Options, parts: system.Parts) -> Subject:
    """Reads or makes the problems of a task folder.

    Raises:
        SetupError: There is no such file, or something in it is no problem.
    """
    if task.problem == "workspace":
        built: Subject = importlib.import_module(WORKSPACE).subject(task, options, parts)
        return built
    weights = fitness.weights_of(options.weights)
    if task.data is None:
        rows = list(making.make(task.problem, task.number, task.size, parts.seed))
        visible = [{name: row[name] for name in data.VISIBLE if name in row} for row in rows]
        problems = [data.of_row(row, parts.seed) for row in visible]
        return Subject(
            problems, _judge(problems, weights), f"{len(problems)} made-up problems of the kind {task.problem}"
        )
    path = _found(task.data, parts.folder)
    problems = data.read(path, parts.seed, task.most)
    source = f"{path.name}: {len(problems)} problems"
    return Subject(problems, _judge(problems, weights), source, [path], lambda plans: grading.graded(path, plans))


def _judge(problems: Sequence[Problem], weights: fitness.Weights) -> judge.PlanJudge:
    return judge.PlanJudge({each.id: each for each in problems}, weights)


def _found(named: str, folder: Path) -> Path:
    """Returns a file by its name, relative to the task's folder or to where we are."""
    wanted = Path(named).expanduser()
    places = [folder / wanted, wanted.absolute()]
    for path in places:
        if path.is_file():
            return path
    raise errors.SetupError(f"There is no file {wanted} in {folder} or here: task.data must name one of JSON lines.")
