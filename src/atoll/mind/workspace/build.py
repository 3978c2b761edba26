"""Puts a workspace task together: the repository, its worldlines, and its tests in the jail."""

import contextlib
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from atoll import errors, system
from atoll.candidate import JSON
from atoll.evaluation import Evaluation
from atoll.mind import fitness, judge
from atoll.mind import subject as subjects
from atoll.mind.config import Options, Task
from atoll.mind.workspace import copy, mending, moves, reviews
from atoll.mind.workspace.checks import Checks, Terms
from atoll.mind.workspace.kind import WorkspaceKind
from atoll.mind.workspace.names import Refused, is_protected
from atoll.mind.workspace.workspace import Workspace

_MOST_MOVES = 24
_MOST_NAMES = 20  # runs of one task at once
_PATIENCE_SECONDS = 2.0
_LARGEST_SHOWN = 100_000


def subject(task: Task, options: Options, parts: system.Parts) -> subjects.Subject:
    """Opens the repository of a task folder and finds out what its tests say of it now.

    Raises:
        SetupError: There is no repository, it cannot be used, or it has no tests that can be run.
    """
    with contextlib.ExitStack() as opened:
        source = _source(task, parts)
        folder, is_copy = _repository(source, opened)
        space = _workspace(folder, task, parts, opened)
        terms = Terms(task.runner, task.tests, task.commands)
        checks = Checks(space, parts.place, terms)
        opened.callback(checks.close)
        kind = WorkspaceKind(space, checks, task.protected)
        found = checks.test_base()
        if found.failure is not None:
            raise errors.SetupError(f"The tests of {folder.name} cannot be run: {found.failure}.")
        problem = _problem(kind, task, found, parts, is_copy=is_copy)
        weights = fitness.weights_of(options.weights)
        about = f"{folder.name}{', a private copy' if is_copy else ''}: {found.metrics['tests']:.0f} tests"
        close = opened.pop_all().close
        return subjects.Subject(
            [problem],
            judge.PlanJudge({problem.id: problem}, weights),
            about,
            _files(source, space),
            keep=lambda plans: {} if is_copy else _kept(problem, plans, folder),
            sandbox=checks.level,
            close=close,
            extra={
                "repository": f"{len(space.repository.files(space.base))} files at {space.base[:12]}",
                "tests": f"{found.metrics['passed']:.0f} of {found.metrics['tests']:.0f} pass, by {task.runner}; "
                f"they run {system.BESIDE}",
                "worldlines": f"branches atoll/{space.run}/ID; the best stays at refs/atoll/{space.run}/"
                if not is_copy
                else "in a private copy",
                "edits without a model": len(problem.moves),
            },
        )


def _kept(problem: mending.Mending, plans: Mapping[str, str], folder: Path) -> Mapping[str, JSON]:
    """Keeps the best worldline and says where, with a command that shows it."""
    for plan in plans.values():
        with contextlib.suppress(Refused):  # somebody has moved the repository on meanwhile
            ref = f"refs/atoll/{problem.kind.workspace.run}/{problem.keep(plan)}"
            return {"ref": ref, "look": f"git -C {shlex.quote(str(folder.resolve()))} diff HEAD...{ref}"}
    return {}


def _source(task: Task, parts: system.Parts) -> Path:
    if task.repository is None:
        raise errors.SetupError("task.problem is workspace: name the repository to mend (task.repository).")
    return reviews.source_of(parts.folder, task.repository)


def _repository(folder: Path, opened: contextlib.ExitStack) -> tuple[Path, bool]:
    """Returns the repository, and whether it is a private copy."""
    if reviews.is_repository(folder):
        return folder, False
    made = copy.copied(folder)
    opened.callback(shutil.rmtree, made.parent, ignore_errors=True)
    return made, True


def _workspace(folder: Path, task: Task, parts: system.Parts, opened: contextlib.ExitStack) -> Workspace:
    """Opens the workspaces of this task; while another process runs the same one, under another name."""
    desks = parts.workers if task.worktrees is None else task.worktrees
    name = reviews.place_of(parts.folder, str(task.repository), parts.seed)
    for number in range(1, _MOST_NAMES + 1):
        try:
            space = Workspace(
                folder,
                name if number == 1 else f"{name}-{number}",
                num_desks=desks,
                uncommitted=task.uncommitted,
                patience_seconds=_PATIENCE_SECONDS if number == 1 else 0.0,
            )
        except Refused as refusal:
            if "Another process" not in str(refusal) or number == _MOST_NAMES:
                raise
        else:
            opened.callback(space.close)
            return space
    raise errors.SetupError(f"{_MOST_NAMES} processes run this task at once: wait for one of them.")


def _problem(
    kind: WorkspaceKind, task: Task, found: Evaluation, parts: system.Parts, *, is_copy: bool
) -> mending.Mending:
    texts = dict(_texts(kind))
    free = {path: text for path, text in texts.items() if not is_protected(path, task.protected)}
    missed = int(found.metrics["tests"] - found.metrics["passed"])
    suspects = moves.suspicion(kind.checks.spectrum(), missed) if missed else {}
    known = {path: lines for path, lines in suspects.items() if lines and path in free}
    edits = () if parts.llm else moves.moves(free, known, parts.seed, _MOST_MOVES)
    if not edits and not parts.llm:
        raise errors.SetupError("Nothing in the repository is Python that the syntax engine can change: give --llm.")
    return mending.Mending(
        kind,
        mending.told(texts, task.protected, found),
        edits,
        int(found.metrics["passed"]),
        int(found.metrics["tests"]),
        lambda name: "" if is_copy else f"See: git diff HEAD...refs/atoll/{kind.workspace.run}/{name}",
    )


def _texts(kind: WorkspaceKind) -> Mapping[str, str]:
    """Returns the text files of the base, tests last: a model should see first what it may change."""
    space, found = kind.workspace, dict[str, str]()
    for entry in space.repository.files(space.base):
        if entry.mode.startswith("100") and entry.size <= _LARGEST_SHOWN:
            body = space.objects.body(entry.sha)
            if b"\0" not in body:
                found[entry.path] = body.decode(errors="replace")
    return dict(sorted(found.items(), key=lambda each: ("test" in each[0], each[0])))


def _files(folder: Path, space: Workspace) -> list[Path]:
    paths = (folder / entry.path for entry in space.repository.files(space.base))
    return [path for path in paths if path.is_file() and not path.is_symlink()]
