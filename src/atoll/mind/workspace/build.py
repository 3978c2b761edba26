"""Builds the problem set of a workspace task: repository, worldlines and tests in the sandbox."""

import contextlib
import shlex
import shutil
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from atoll import errors, system
from atoll.candidate import JSON
from atoll.mind import problems
from atoll.mind.actions import Edit
from atoll.mind.config import Options, Task
from atoll.mind.workspace import localize, repair_problem, repository, reviews
from atoll.mind.workspace.edits import compute_suspicion, find_edits
from atoll.mind.workspace.git import WorkspaceError, is_protected
from atoll.mind.workspace.git_backend import GitBackend
from atoll.mind.workspace.runner import RunnerConfig, TestResults, WorkspaceRunner
from atoll.mind.workspace.workspace import Workspace

_MAX_EDITS = 24
_MAX_RUNS = 20  # parallel runs of one task
_LOCK_TIMEOUT_SECONDS = 2.0
_MAX_RECENT_COMMITS = 20


def load_problem_set(task: Task, options: Options, context: system.BuildContext) -> problems.ProblemSet:
    """Opens the repository of a task folder and tests its current state.

    Raises:
        SetupError: The repository is not found, cannot be used, or has no tests that run.
    """
    with contextlib.ExitStack() as cleanup:
        source = _find_source(task, context)
        folder, is_copy = _open_repository(source, cleanup)
        workspace = _open_workspace(folder, task, context, cleanup)
        check_files, patterns, check_paths = repair_problem.split_checks(task.checks, context.folder, task.tests)
        runner_config = RunnerConfig(task.runner, task.tests, task.commands, check_files=check_files)
        runner = WorkspaceRunner(workspace, context.executor_config, runner_config)
        cleanup.callback(runner.close)
        backend = GitBackend(workspace, runner, task.protected)
        report = runner.test_base()
        base_result = report.evaluation
        if base_result.failure is not None:
            raise errors.SetupError(f"The tests of {folder.name} cannot be run: {base_result.failure}.")
        goal = repair_problem.make_goal(repair_problem.read_goal(task.goal, context.folder), patterns, report)
        problem = _make_problem(backend, task, goal, report, context, is_copy=is_copy)
        problem.terms = options.fitness_terms
        description = f"{folder.name}{', a private copy' if is_copy else ''}: {base_result.metrics['tests']:.0f} tests"
        close = cleanup.pop_all().close
        return problems.ProblemSet(
            [problem],
            problems.make_evaluator([problem], options),
            description,
            [*_list_files(source, workspace), *check_paths],
            save_best=lambda plans: {} if is_copy else _archive_best(problem, plans, folder),
            sandbox=runner.level,
            close=close,
            report={
                "repository": f"{len(workspace.repository.list_files(workspace.base))} files at {workspace.base[:12]}",
                "tests": f"{base_result.metrics['passed']:.0f} of {base_result.metrics['tests']:.0f} pass, "
                f"by {task.runner}; they run {system.SHARED_SANDBOX_RISK}",
                **({"goal": goal.text.partition("\n")[0][:100]} if goal.text else {}),
                "checks": f"{len(goal.checks)}" if goal.checks else "none, so a person decides",
                "worldlines": f"branches atoll/{workspace.run}/ID; the best stay at refs/atoll/{workspace.run}/"
                if not is_copy
                else "in a private copy",
                "edits without an LLM": len(problem.moves),
            },
        )


def _archive_best(problem: repair_problem.RepairProblem, plans: Mapping[str, str], folder: Path) -> Mapping[str, JSON]:
    """Archives the best worldline. Returns its ref and a command that shows it."""
    for plan in plans.values():
        with contextlib.suppress(WorkspaceError):  # the repository has changed meanwhile
            ref = f"refs/atoll/{problem.backend.workspace.run}/{problem.archive_plan(plan)}"
            return {"ref": ref, "look": f"git -C {shlex.quote(str(folder.resolve()))} diff HEAD...{ref}"}
    return {}


def _find_source(task: Task, context: system.BuildContext) -> Path:
    if task.repository is None:
        raise errors.SetupError("task.problem is workspace. Set task.repository to the repository to repair.")
    return reviews.find_source(context.folder, task.repository)


def _open_repository(folder: Path, cleanup: contextlib.ExitStack) -> tuple[Path, bool]:
    """Returns the repository, and whether it is a private copy."""
    if reviews.is_repository(folder):
        return folder, False
    copy_folder = repository.copy_to_repository(folder)
    cleanup.callback(shutil.rmtree, copy_folder.parent, ignore_errors=True)
    return copy_folder, True


def _open_workspace(folder: Path, task: Task, context: system.BuildContext, cleanup: contextlib.ExitStack) -> Workspace:
    """Opens the workspace of this task. If another process uses it, the name gets a number."""
    num_worktrees = context.workers if task.worktrees is None else task.worktrees
    name = reviews.make_run_name(context.folder, str(task.repository), context.seed)
    for attempt in range(1, _MAX_RUNS + 1):
        try:
            workspace = Workspace(
                folder,
                name if attempt == 1 else f"{name}-{attempt}",
                num_worktrees=num_worktrees,
                uncommitted=task.uncommitted,
                lock_timeout_seconds=_LOCK_TIMEOUT_SECONDS if attempt == 1 else 0.0,
            )
        except WorkspaceError as error:
            if "Another process" not in str(error) or attempt == _MAX_RUNS:
                raise
        else:
            cleanup.callback(workspace.close)
            return workspace
    raise errors.SetupError(f"{_MAX_RUNS} processes already run this task. Wait for one of them.")


def _make_problem(
    backend: GitBackend,
    task: Task,
    goal: repair_problem.Goal,
    report: TestResults,
    context: system.BuildContext,
    *,
    is_copy: bool,
) -> repair_problem.RepairProblem:
    suspects = compute_suspicion(backend.runner.measure_spectrum(), len(report.failed)) if report.failed else {}
    edits = () if context.llm else _find_edits(backend, task, suspects, context.seed)
    if not edits and not context.llm:
        raise errors.SetupError("The repository has no Python that the syntax mutator can change. Pass --llm MODEL.")
    if not goal.checks and not context.llm:
        raise errors.SetupError("The goal has no checks, so only an LLM can work on it. Pass --llm MODEL.")
    evidence = localize.Evidence(
        goal.text, report.evaluation.feedback, report.failed, suspects, _list_recent_paths(backend.workspace)
    )
    return repair_problem.RepairProblem(
        backend,
        repair_problem.describe_task(backend, goal, task.protected, report, evidence, task.shown_chars),
        edits,
        goal,
        lambda name: "" if is_copy else f"See: git diff HEAD...refs/atoll/{backend.workspace.run}/{name}",
        task.keep,
    )


def _find_edits(
    backend: GitBackend, task: Task, suspects: Mapping[str, Mapping[int, float]], seed: int
) -> Sequence[Edit]:
    editable = {path: text for path, text in backend.base_texts.items() if not is_protected(path, task.protected)}
    suspect_lines = {path: lines for path, lines in suspects.items() if lines and path in editable}
    return find_edits(editable, suspect_lines, seed, _MAX_EDITS)


def _list_recent_paths(workspace: Workspace) -> list[str]:
    """Returns the files that the last commits changed, newest first."""
    repo = workspace.repository
    commits = repo.git("rev-list", f"--max-count={_MAX_RECENT_COMMITS}", "--first-parent", workspace.base, "--").split()
    pairs = list(pairwise(commit.decode() for commit in commits))
    return list(dict.fromkeys(path for newer, older in pairs for path in repo.list_changed_paths(older, newer)))


def _list_files(folder: Path, workspace: Workspace) -> list[Path]:
    paths = (folder / entry.path for entry in workspace.repository.list_files(workspace.base))
    return [path for path in paths if path.is_file() and not path.is_symlink()]
