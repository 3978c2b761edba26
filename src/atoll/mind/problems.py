"""Problem sets: the problems of a run, their evaluator and their source."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from atoll import errors, function, system
from atoll.candidate import JSON
from atoll.mind import fitness, plan_evaluator
from atoll.mind.config import Options, Task
from atoll.mind.tasks import generate, load, own
from atoll.mind.tasks.problem import Problem

WORKSPACE_MODULE = "atoll.mind.workspace.build"  # imported lazily: it needs git


@dataclass(frozen=True, slots=True)
class ProblemSet:
    """Problems of a run.

    Attributes:
        problems: In the order in which they take turns.
        evaluator: Evaluates candidates of all problems. The first line of a candidate names the problem.
        source: Display text of their origin.
        files: Files that must not change before a resume.
        grade: Compares plans, by problem id, with solutions that the search has not seen.
        save_best: Saves the best plans, by problem id, before `close`. Returns their location.
        sandbox: Sandbox level of the candidates.
        close: Releases resources.
        report: Rows for the report of the run.
    """

    problems: Sequence[Problem]
    evaluator: function.CandidateEvaluator
    source: str
    files: Sequence[Path] = ()
    grade: Callable[[Mapping[str, str]], Mapping[str, bool | None]] = field(default=lambda plans: {})
    save_best: Callable[[Mapping[str, str]], Mapping[str, JSON]] = field(default=lambda plans: {})
    sandbox: str = "none: plans are data"
    close: Callable[[], None] = lambda: None
    report: Mapping[str, JSON] = field(default_factory=dict)


def load_problem_set(task: Task, options: Options, context: system.BuildContext) -> ProblemSet:
    """Reads or generates the problems of a task folder.

    Raises:
        SetupError: The file is not found, or contains something else than problems.
    """
    if task.problem == "workspace":
        problem_set: ProblemSet = importlib.import_module(WORKSPACE_MODULE).load_problem_set(task, options, context)
        return problem_set
    if ".py:" in task.problem:
        data = _find_file(task.data or "data.jsonl", context.folder)
        own_problems, file = own.load_own_problems(task.problem, context.folder, data, task.most)
        if context.llm is None and not own_problems[0].moves:
            raise errors.SetupError(f"{task.problem} has no moves. Pass --llm MODEL, or add moves and write(moves).")
        source = f"{data.name}: {len(own_problems)} problems of {task.problem}"
        return ProblemSet(own_problems, make_evaluator(own_problems, options), source, [data, file])
    if task.data is None:
        rows = list(generate.generate_rows(task.problem, task.number, task.size, context.seed))
        visible = [{name: row[name] for name in load.VISIBLE_FIELDS if name in row} for row in rows]
        problems = [load.parse_row(row, context.seed) for row in visible]
        return ProblemSet(
            problems, make_evaluator(problems, options), f"{len(problems)} generated problems of kind {task.problem}"
        )
    path = _find_file(task.data, context.folder)
    problems = load.load_problems(path, context.seed, task.most)
    source = f"{path.name}: {len(problems)} problems"
    return ProblemSet(
        problems, make_evaluator(problems, options), source, [path], lambda plans: load.grade_in_subprocess(path, plans)
    )


def make_evaluator(problems: Sequence[Problem], options: Options) -> plan_evaluator.PlanEvaluator:
    """Returns the evaluator of the problems, with the weights and terms of the options."""
    weights = fitness.parse_weights(options.weights)
    return plan_evaluator.PlanEvaluator({problem.id: problem for problem in problems}, weights, options.fitness_terms)


def _find_file(name: str, folder: Path) -> Path:
    """Returns a file by its name, relative to the task folder or the current folder."""
    requested = Path(name).expanduser()
    paths = [folder / requested, requested.absolute()]
    for path in paths:
        if path.is_file():
            return path
    raise errors.SetupError(f"File {requested} not found in {folder} or here. Set task.data to a file of JSON lines.")
