"""Where worldlines are tested and their commands run: in the jail, on copies of their files."""

import base64
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from atoll import errors, executor, sandbox
from atoll.evaluation import Cost, Evaluation, failed
from atoll.mind.workspace.edit_search import Spectrum
from atoll.mind.workspace.path_checks import WorkspaceError
from atoll.mind.workspace.repository import SUBMODULE_MODE
from atoll.mind.workspace.sandbox_job import File, Runner, WorkspaceJob
from atoll.mind.workspace.workspace import Workspace

_PYTHON = ("python", "python3")
_MIN_TEST_SECONDS, _TIME_FACTOR = 0.1, 5.0
_MAX_FILES = 15_000  # a jail's folder holds 20,000, and tests write some too


@dataclass(frozen=True, slots=True)
class RunnerConfig:
    """How worldlines are tested.

    Attributes:
        runner: What finds and runs the tests.
        tests: Folder in which tests are looked for.
        commands: Names of programs that actions may run; `python` is ours.
        views: Whether tests may be run in a worktree that is read-only to them, where that finds the same.
    """

    runner: Runner = "unittest"
    tests: str = "."
    commands: tuple[str, ...] = ("python",)
    uses_worktrees: bool = True


_DEFAULT_CONFIG = RunnerConfig()


class WorkspaceRunner:
    """Tests commits and runs commands on them, from any thread.

    The jail gets the files out of git and nothing of the disk: what a test or a command writes is gone with it, and
    a repository's hooks, filters and links are only bytes in there. Tests that write nothing beside their code are
    run in the worldline's worktree instead, which the jail shows them read-only: to copy 1,000 files takes longer than
    all else. Which tests are of that kind is tried once, on the first worldline: both ways must find the same.

    Args:
        workspace: Where the worldlines are.
        place: What judging one may use, and how strong the jail must be.
        terms: How to test.

    Raises:
        Refused: The files are too many or too large for a jail, or a program is not there.
    """

    def __init__(
        self, workspace: Workspace, executor_config: executor.ExecutorConfig, config: RunnerConfig = _DEFAULT_CONFIG
    ) -> None:
        self._repository, self._objects, self._base = workspace.repository, workspace.objects, workspace.base
        self._workspace, self._executor_config, self._config = workspace, executor_config, config
        self._programs = {name: _find_program(name) for name in config.commands}
        self._files = self._read_base_files()
        self._test_executor = _LazyExecutor(lambda: self._executor_config.open(self._make_job(self._files, {})))
        self._command_executor = _LazyExecutor(self._open_command_executor)
        self._test_seconds = 0.0
        self._lock = Lock()
        self._worktree_executors: dict[Path, _LazyExecutor] = {}
        can_show_worktrees = (
            config.uses_worktrees and workspace.has_worktrees and executor_config.ray_config is None
        )  # other machines see no worktree of ours
        self._can_use_worktrees: bool | None = None if can_show_worktrees else False

    @property
    def level(self) -> str:
        """How strong the jail is."""
        return self._test_executor().level

    def test(self, commit: str, worldline_id: str = "") -> Evaluation:
        """Returns the share of tests that pass at a commit, and in words how the others failed.

        Args:
            commit: What is tested.
            worldline_id: The open worldline that stands there, if one does: then its worktree may be used.
        """
        if not worldline_id or self._can_use_worktrees is False:
            return self._run_tests(self._test_executor(), self._make_request(commit, {}))
        if self._can_use_worktrees:
            return self._test_in_worktree(commit, worldline_id)
        copy_result, worktree_result = self.test(commit), self._test_in_worktree(commit, worldline_id)
        self._can_use_worktrees = copy_result.failure is None and (copy_result.scores, copy_result.failure) == (
            worktree_result.scores,
            worktree_result.failure,
        )
        return copy_result

    def _test_in_worktree(self, commit: str, worldline_id: str) -> Evaluation:
        with self._workspace.checkout(worldline_id, commit) as folder:
            with self._lock:
                lazy_executor = self._worktree_executors.setdefault(
                    folder, _LazyExecutor(lambda: self._open_worktree_executor(folder))
                )
            try:
                opened_executor = lazy_executor()
            except errors.SetupError as error:  # a jail that cannot be shown the folder: copies will do
                return failed(str(error))
            return self._run_tests(
                opened_executor, {"files": {}, "command": None, "folder": str(folder), **self._make_time_options()}
            )

    def _run_tests(self, test_sandbox: sandbox.Sandbox, request: Mapping[str, Any]) -> Evaluation:
        result = sandbox.run_job(test_sandbox, request)
        cost = Cost(seconds=result.seconds)
        if result.failure is not None:
            return failed(f"the tests could not be run: {result.failure}", feedback=result.output[-2000:], cost=cost)
        return replace(_parse_result(result.value), cost=cost)

    def test_base(self) -> Evaluation:
        """Tests the base, and from now on gives each test a few times as long as all of them took there.

        A change in a loop often makes one that never ends: to wait for the jail's limit each time would be most of the
        time of a search. It is processor time that counts, and only tests by unittest are ended one by one.
        """
        result = self.test(self._base)
        if result.failure is None:
            self._test_seconds = max(_MIN_TEST_SECONDS, _TIME_FACTOR * result.metrics["test_seconds"])
        return result

    def measure_spectrum(self) -> Spectrum:
        """Returns how many failing and passing tests run through each line of the base; nothing where nobody can tell.

        It comes out of the jail, so it may be wrong: it says where to look, and no more.
        """
        result = sandbox.run_job(self._test_executor(), {**self._make_request(self._base, {}), "trace": True})
        line_counts: Any = result.value["lines"] if isinstance(result.value, Mapping) else {}
        return {
            str(path): {int(line): (int(failing), int(passing)) for line, (failing, passing) in lines.items()}
            for path, lines in line_counts.items()
        }

    def run_command(self, command: Sequence[str], commit: str, changed: Mapping[str, bytes]) -> tuple[bool, str]:
        """Runs a command on a commit with some more changes; says whether it ended well, and what it printed.

        Raises:
            Refused: No such command is allowed.
        """
        if not command or command[0] not in self._programs:
            allowed = ", ".join(self._programs) or "none"
            raise WorkspaceError(
                f"{' '.join(command)[:60]!r} may not be run: the task allows {allowed} (task.commands)."
            )
        result = sandbox.run_job(
            self._command_executor(), {**self._make_request(commit, changed), "command": list(command)}
        )
        if result.failure is not None:
            return False, f"{result.failure}\n{result.output}".strip()
        value: Any = result.value
        return value["code"] == 0, f"{value['output'].rstrip()}\n(exit {value['code']})".strip()

    def close(self) -> None:
        """Ends the jails; a second call does nothing."""
        for lazy_executor in (self._test_executor, self._command_executor, *self._worktree_executors.values()):
            lazy_executor.close()

    def _open_command_executor(self) -> executor.LocalExecutor:
        base_permissions = self._executor_config.permissions
        program_paths = tuple(path for name, path in self._programs.items() if name not in _PYTHON)
        permissions = replace(base_permissions, may_fork=True, programs=(*base_permissions.programs, *program_paths))
        return replace(self._executor_config, permissions=permissions).open(self._make_job(self._files, self._programs))

    def _open_worktree_executor(self, folder: Path) -> executor.LocalExecutor:
        """Opens a jail that is shown one worktree, read-only, whatever that shows later."""
        permissions = replace(
            self._executor_config.permissions, read_paths=(*self._executor_config.permissions.read_paths, str(folder))
        )
        return replace(self._executor_config, permissions=permissions, num_slots=1).open(self._make_job({}, {}))

    def _make_job(self, files: Mapping[str, File], programs: Mapping[str, str]) -> sandbox.MakeJob:
        return partial(WorkspaceJob, files, self._config.runner, self._config.tests, programs)

    def _read_base_files(self) -> Mapping[str, File]:
        entries = self._repository.list_files(self._base)
        size, max_bytes = sum(entry.size for entry in entries), self._executor_config.limits.disk_mb * 2**20 // 2
        if size > max_bytes or len(entries) > _MAX_FILES:
            raise WorkspaceError(
                f"{len(entries)} files of {size / 2**20:.0f} MiB are too much for a jail of {max_bytes // 2**20} MiB and "
                f"{_MAX_FILES} files: raise sandbox.disk_mb, or give a smaller repository."
            )
        return {
            entry.path: (entry.mode, b"" if entry.mode == SUBMODULE_MODE else self._objects.read_content(entry.sha))
            for entry in entries
        }

    def _make_time_options(self) -> dict[str, Any]:
        return {"trace": False, "seconds": self._test_seconds}

    def _make_request(self, commit: str, changed: Mapping[str, bytes]) -> dict[str, Any]:
        """Returns what a commit has that the base has not; worldlines change and add files, and remove none."""
        files: dict[str, File] = {}
        for path in self._repository.list_changed_paths(self._base, commit) if commit != self._base else ():
            if node := self._objects.find_node(commit, path):
                files[path] = (node.mode, self._objects.read_content(node.sha))
        for path, body in changed.items():
            files[path] = (self._files.get(path, ("100644", b""))[0], body)
        return {
            "files": {path: [mode, _encode_content(content)] for path, (mode, content) in files.items()},
            "command": None,
            "folder": "",
            **self._make_time_options(),
        }


class _LazyExecutor:
    """Opens a jail when it is first needed."""

    def __init__(self, open_executor: Callable[[], executor.LocalExecutor]) -> None:
        self._open, self._lock = open_executor, Lock()
        self._executor: executor.LocalExecutor | None = None

    def __call__(self) -> executor.LocalExecutor:
        with self._lock:
            self._executor = self._executor or self._open()
            return self._executor

    def close(self) -> None:
        with self._lock:
            if self._executor:
                self._executor.close()


def _encode_content(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _find_program(name: str) -> str:
    path = sys.executable if name in _PYTHON else shutil.which(name) if "/" not in name else None
    if path is None:
        raise WorkspaceError(
            f"task.commands names {name!r}, and there is no such program on this machine: leave it out."
        )
    return path


def _parse_result(value: Any) -> Evaluation:
    """Makes an evaluation of what came out of the jail, where the worldline's own code could have written it."""
    match value:
        case {"passed": list(passed), "failed": list(missed), "texts": list(texts), "seconds": float(seconds)}:
            names = {str(name) for name in passed} | {str(name) for name in missed}
        case _:
            return failed("the tests answered with something else than their results")
    if not names:
        return failed("no test was found: name the folder that has them (task.tests)")
    passed_names = {str(name) for name in passed} - {str(name) for name in missed}
    feedback_lines = [f"{len(passed_names)} of {len(names)} tests pass."] + [
        f"{name} fails:\n{text}" for name, text in texts
    ]
    metrics = {
        "passed": float(len(passed_names)),
        "tests": float(len(names)),
        "test_seconds": seconds,
        "lay_out_seconds": float(value.get("lay_out_seconds", 0.0)),
    }
    scores = tuple(float(name in passed_names) for name in sorted(names))
    return Evaluation(len(passed_names) / len(names), scores, metrics, "\n".join(feedback_lines))
