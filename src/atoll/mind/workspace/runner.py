"""Runs the tests and commands of worldlines in the sandbox."""

import base64
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from atoll import errors, executor, sandbox
from atoll.candidate import EMPTY
from atoll.evaluation import Cost, Evaluation, failed
from atoll.mind.workspace.edits import Spectrum
from atoll.mind.workspace.git import WorkspaceError
from atoll.mind.workspace.repository import SUBMODULE_MODE
from atoll.mind.workspace.sandbox_job import File, Runner, WorkspaceJob
from atoll.mind.workspace.workspace import Workspace

_PYTHON = ("python", "python3")
_MIN_TEST_SECONDS, _TIME_FACTOR = 0.1, 5.0
_MAX_FILES = 15_000  # a sandbox folder can have 20,000, and tests write some too


@dataclass(frozen=True, slots=True)
class RunnerConfig:
    """Settings of the tests and commands.

    Attributes:
        runner: Test runner.
        tests: Folder in which to look for tests.
        commands: Programs that actions may run. `python` is the current interpreter.
        uses_worktrees: Whether tests may run in a read-only worktree, if the results are the same.
        check_files: Contents of further test files by path. Worldlines can read them, but not change them.
    """

    runner: Runner = "unittest"
    tests: str = "."
    commands: tuple[str, ...] = ("python",)
    uses_worktrees: bool = True
    check_files: Mapping[str, bytes] = field(default_factory=dict)


_DEFAULT_CONFIG = RunnerConfig()


class TestResults(NamedTuple):
    """Results of all tests.

    Attributes:
        evaluation: Share of passing tests, with the failures as feedback.
        passed: Names of the passing tests.
        failed: Names of the failing tests.
    """

    evaluation: Evaluation
    passed: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()


class WorkspaceRunner:
    """Tests commits and runs commands on them, from any thread.

    The sandbox gets the files from git and cannot access the disk. Files that a test or command writes are lost. The
    repository's hooks, filters and links have no effect there. Copying 1,000 files takes most of the time. So tests
    that write nothing run in the worldline's worktree, which is read-only in the sandbox. The first worldline is
    tested both ways; the worktree is used only if the results are the same.

    Args:
        workspace: Stores the worldlines.
        executor_config: Limits and required sandbox level.
        config: Settings of the tests and commands.

    Raises:
        WorkspaceError: The files are too many or too large for the sandbox, or a program is missing.
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
            config.uses_worktrees
            and not config.check_files
            and workspace.has_worktrees
            and executor_config.ray_config is None
        )  # other machines cannot read our worktrees
        self._can_use_worktrees: bool | None = None if can_show_worktrees else False

    @property
    def check_files(self) -> Mapping[str, bytes]:
        return self._config.check_files

    @property
    def level(self) -> str:
        """The sandbox level."""
        return self._test_executor().level

    def test(self, commit: str, worldline_id: str = "") -> Evaluation:
        """Returns the share of passing tests at a commit, with the failures as feedback."""
        return self.report(commit, worldline_id).evaluation

    def report(self, commit: str, worldline_id: str = "", changed: Mapping[str, bytes] = EMPTY) -> TestResults:
        """Runs all tests at a commit.

        Args:
            commit: Commit to test.
            worldline_id: Open worldline at this commit, if any. Its worktree may be used.
            changed: Contents of files that are not committed yet, by path.
        """
        if changed or not worldline_id or self._can_use_worktrees is False:
            return self._run_tests(self._test_executor(), self._make_request(commit, changed))
        if self._can_use_worktrees:
            return self._test_in_worktree(commit, worldline_id)
        copied, in_worktree = self.report(commit), self._test_in_worktree(commit, worldline_id)
        failures = (copied.evaluation.failure, in_worktree.evaluation.failure)
        self._can_use_worktrees = failures == (None, None) and copied[1:] == in_worktree[1:]
        return copied

    def _test_in_worktree(self, commit: str, worldline_id: str) -> TestResults:
        with self._workspace.checkout(worldline_id, commit) as folder:
            with self._lock:
                lazy_executor = self._worktree_executors.setdefault(
                    folder, _LazyExecutor(lambda: self._open_worktree_executor(folder))
                )
            try:
                opened_executor = lazy_executor()
            except errors.SetupError as error:  # this sandbox cannot read the folder; copies are used
                return TestResults(failed(str(error)))
            return self._run_tests(
                opened_executor, {"files": {}, "command": None, "folder": str(folder), **self._make_time_options()}
            )

    def _run_tests(self, test_sandbox: sandbox.Sandbox, request: Mapping[str, Any]) -> TestResults:
        result = sandbox.run_job(test_sandbox, request)
        cost = Cost(seconds=result.seconds)
        if result.failure is not None:
            return TestResults(
                failed(f"the tests could not be run: {result.failure}", feedback=result.output[-2000:], cost=cost)
            )
        report = _parse_result(result.value)
        return report._replace(evaluation=replace(report.evaluation, cost=cost))

    def test_base(self) -> TestResults:
        """Tests the base, and sets the time limit of each test to a multiple of the time of all tests.

        Mutations of loops often never end, and waiting for the sandbox limit would dominate the search. The limit
        counts CPU time. Only unittest can stop single tests.
        """
        report = self.report(self._base)
        if report.evaluation.failure is None:
            self._test_seconds = max(_MIN_TEST_SECONDS, _TIME_FACTOR * report.evaluation.metrics["test_seconds"])
        return report

    def measure_spectrum(self) -> Spectrum:
        """Returns the numbers of failing and passing tests per line of the base; empty if unknown.

        The sandboxed code can falsify it, so it only guides the search.
        """
        result = sandbox.run_job(self._test_executor(), {**self._make_request(self._base, {}), "trace": True})
        line_counts: Any = result.value["lines"] if isinstance(result.value, Mapping) else {}
        return {
            str(path): {int(line): (int(failing), int(passing)) for line, (failing, passing) in lines.items()}
            for path, lines in line_counts.items()
        }

    def run_command(self, command: Sequence[str], commit: str, changed: Mapping[str, bytes]) -> tuple[bool, str]:
        """Runs a command on a commit with further changes. Returns whether it succeeded, and its output.

        Raises:
            WorkspaceError: The command is not allowed.
        """
        if not command or command[0] not in self._programs:
            allowed = ", ".join(self._programs) or "none"
            raise WorkspaceError(
                f"{' '.join(command)[:60]!r} is not allowed. Allowed commands are {allowed} (task.commands)."
            )
        result = sandbox.run_job(
            self._command_executor(), {**self._make_request(commit, changed), "command": list(command)}
        )
        if result.failure is not None:
            return False, f"{result.failure}\n{result.output}".strip()
        value: Any = result.value
        return value["code"] == 0, f"{value['output'].rstrip()}\n(exit {value['code']})".strip()

    def close(self) -> None:
        """Closes the sandboxes. Can be called twice."""
        for lazy_executor in (self._test_executor, self._command_executor, *self._worktree_executors.values()):
            lazy_executor.close()

    def _open_command_executor(self) -> executor.LocalExecutor:
        base_permissions = self._executor_config.permissions
        program_paths = tuple(path for name, path in self._programs.items() if name not in _PYTHON)
        permissions = replace(base_permissions, may_fork=True, programs=(*base_permissions.programs, *program_paths))
        return replace(self._executor_config, permissions=permissions).open(self._make_job(self._files, self._programs))

    def _open_worktree_executor(self, folder: Path) -> executor.LocalExecutor:
        """Opens a sandbox that can read one worktree."""
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
                f"{len(entries)} files of {size / 2**20:.0f} MiB exceed the sandbox limit of {max_bytes // 2**20} MiB "
                f"and {_MAX_FILES} files. Raise sandbox.disk_mb, or use a smaller repository."
            )
        files: dict[str, File] = {
            entry.path: (entry.mode, b"" if entry.mode == SUBMODULE_MODE else self._objects.read_content(entry.sha))
            for entry in entries
        }
        return files | {path: ("100644", content) for path, content in self._config.check_files.items()}

    def _make_time_options(self) -> dict[str, Any]:
        return {"trace": False, "seconds": self._test_seconds}

    def _make_request(self, commit: str, changed: Mapping[str, bytes]) -> dict[str, Any]:
        """Returns the files of a commit that differ from the base. Worldlines never remove files."""
        files: dict[str, File] = {}
        for path in self._repository.list_changed_paths(self._base, commit) if commit != self._base else ():
            if node := self._objects.find_node(commit, path):
                files[path] = (node.mode, self._objects.read_content(node.sha))
        for path, body in changed.items():
            files[path] = (self._files.get(path, ("100644", b""))[0], body)
        for path in self._config.check_files:
            files.pop(path, None)
        return {
            "files": {path: [mode, _encode_content(content)] for path, (mode, content) in files.items()},
            "command": None,
            "folder": "",
            **self._make_time_options(),
        }


class _LazyExecutor:
    """Opens a sandbox at first use."""

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
        raise WorkspaceError(f"Program {name!r} not found. Install it, or remove it from task.commands.")
    return path


def _parse_result(value: Any) -> TestResults:
    """Makes a report from the sandbox result, which the worldline's own code may have written."""
    match value:
        case {"passed": list(passed), "failed": list(missed), "texts": list(texts), "seconds": float(seconds)}:
            names = {str(name) for name in passed} | {str(name) for name in missed}
        case _:
            return TestResults(failed("the tests returned an invalid result"))
    if not names:
        return TestResults(failed("no tests found. Set task.tests to their folder"))
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
    evaluation = Evaluation(len(passed_names) / len(names), scores, metrics, "\n".join(feedback_lines))
    return TestResults(evaluation, frozenset(passed_names), frozenset(names - passed_names))
