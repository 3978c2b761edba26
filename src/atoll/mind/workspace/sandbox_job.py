"""Job inside the sandbox: writes the files of a worldline, then tests it or runs a command."""

import base64
import importlib
import os
import signal
import subprocess
import sys
import time
import unittest
from collections.abc import Mapping
from types import CodeType, FrameType
from typing import Any, Literal

from atoll.candidate import JSON

LINK_MODE, SUBMODULE_MODE, PROGRAM_MODE = "120000", "160000", "100755"
_MAX_TIMEOUTS = 2
_MAX_TEXT_CHARS, _MAX_TEXTS, _MAX_OUTPUT_BYTES = 2000, 12, 20_000

type Runner = Literal["unittest", "pytest"]
# A file by its mode and content.
type File = tuple[str, bytes]


class WorkspaceJob:
    """Tests a worldline or runs a command in it. All changes are lost with the sandbox process.

    Created once with the files of the base. A request brings the files that a worldline changed.

    Args:
        files: By path.
        runner: Test runner.
        tests: Folder in which to look for tests.
        commands: Allowed programs, by the names that actions use.
    """

    def __init__(self, files: Mapping[str, File], runner: Runner, tests: str, commands: Mapping[str, str]) -> None:
        self._files, self._runner, self._tests, self._commands = files, runner, tests, commands
        if not commands:
            importlib.import_module(runner)  # imported once, before requests

    def __call__(self, request: Mapping[str, Any]) -> JSON:
        start_time = time.perf_counter()
        changed = {path: (mode, base64.b64decode(content)) for path, (mode, content) in request["files"].items()}
        if request["folder"]:
            os.chdir(request["folder"])  # a read-only worktree
        else:
            write_files({**self._files, **changed})
        write_time = time.perf_counter()
        result = self._run_command(request["command"]) if request["command"] else self._run_tests(request)
        return {**result, "lay_out_seconds": write_time - start_time, "seconds": time.perf_counter() - write_time}

    def _run_command(self, command: list[str]) -> dict[str, JSON]:
        program, *arguments = command
        completed = subprocess.run(
            [self._commands[program], *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return {"code": completed.returncode, "output": completed.stdout[-_MAX_OUTPUT_BYTES:].decode(errors="replace")}

    def _run_tests(self, request: Mapping[str, Any]) -> dict[str, JSON]:
        sys.dont_write_bytecode = True
        sys.path.insert(0, os.getcwd())
        importlib.invalidate_caches()
        root = os.getcwd() + os.sep
        tracer = LineTracer(root) if request["trace"] else None
        passed, failed = (
            self._run_unittest(tracer, request["seconds"]) if self._runner == "unittest" else self._run_pytest(tracer)
        )
        texts = [[name, text.replace(root, "")[-_MAX_TEXT_CHARS:]] for name, text in failed.items()]
        report: dict[str, JSON] = {"passed": sorted(passed), "failed": sorted(failed), "texts": texts[:_MAX_TEXTS]}
        return {**report, "lines": tracer.compute_spectrum(set(failed)) if tracer else {}}

    def _run_unittest(self, tracer: "LineTracer | None", seconds: float) -> tuple[set[str], Mapping[str, str]]:
        result = _TestResult(tracer, seconds)
        suite = unittest.TestLoader().discover(self._tests, top_level_dir=os.getcwd())
        suite.run(result)
        return result.passed, result.failed

    def _run_pytest(self, tracer: "LineTracer | None") -> tuple[set[str], Mapping[str, str]]:
        passed: set[str] = set()
        failed: dict[str, str] = {}

        class Listener:
            @staticmethod
            def pytest_runtest_logstart(nodeid: str) -> None:
                if tracer:
                    tracer.start_test(nodeid)

            @staticmethod
            def pytest_runtest_logfinish() -> None:
                if tracer:
                    tracer.end_test()

            @staticmethod
            def pytest_runtest_logreport(report: Any) -> None:
                if report.failed:
                    failed[report.nodeid] = report.longreprtext
                elif report.when == "call" and report.passed:
                    passed.add(report.nodeid)

            @staticmethod
            def pytest_collectreport(report: Any) -> None:
                if report.failed:
                    failed[report.nodeid] = report.longreprtext

        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # other plugins take seconds to load
        pytest = importlib.import_module("pytest")
        pytest.main(["-q", "-p", "no:cacheprovider", "--tb=short", self._tests], plugins=[Listener()])
        return passed - failed.keys(), failed


class LineTracer:
    """Records the lines that each test executes, with `sys.monitoring`.

    Args:
        folder: Only files in this folder count.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._lines_by_test: dict[str, set[tuple[str, int]]] = {}
        self._current_lines: set[tuple[str, int]] = set()
        monitoring = sys.monitoring
        monitoring.use_tool_id(monitoring.COVERAGE_ID, "atoll")
        monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.LINE, self._record_line)

    def start_test(self, name: str) -> None:
        self._current_lines = self._lines_by_test.setdefault(name, set())
        sys.monitoring.set_events(sys.monitoring.COVERAGE_ID, sys.monitoring.events.LINE)
        sys.monitoring.restart_events()

    def end_test(self) -> None:
        sys.monitoring.set_events(sys.monitoring.COVERAGE_ID, 0)

    def compute_spectrum(self, failed: set[str]) -> dict[str, JSON]:
        """Returns per file and line the numbers of failing and passing tests that executed it."""
        counts: dict[str, dict[str, list[int]]] = {}
        for name, test_lines in self._lines_by_test.items():
            for path, line in test_lines:
                counts.setdefault(path, {}).setdefault(str(line), [0, 0])[name not in failed] += 1
        return {path: dict(lines) for path, lines in counts.items()}

    def _record_line(self, code: CodeType, line: int) -> object:
        if code.co_filename.startswith(self._folder):
            self._current_lines.add((code.co_filename.removeprefix(self._folder), line))
        return sys.monitoring.DISABLE


class TimeLimitReached(BaseException):
    """A test takes too long. It is a BaseException, so `except Exception` in the tested code does not catch it."""


class _TestResult(unittest.TestResult):
    """Collects the result of each test. A test over the time limit fails; the second one ends the whole run.

    Args:
        tracer: Records executed lines.
        seconds: CPU seconds per test; 0 for no limit but the sandbox's.
    """

    def __init__(self, tracer: LineTracer | None, seconds: float) -> None:
        super().__init__()
        self._tracer, self._seconds, self._num_timeouts = tracer, seconds, 0
        signal.signal(signal.SIGVTALRM, self._on_timeout)
        self.passed: set[str] = set()
        self.failed: dict[str, str] = {}

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        self.passed.add(test.id())

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addFailure(test, err)
        self.failed[test.id()] = self.failures[-1][1]

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addError(test, err)
        self.failed[test.id()] = self.errors[-1][1]

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.failed[test.id()] = (self.failures + self.errors)[-1][1]

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        self.failed[test.id()] = "expected to fail, but passed"

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().startTest(test)
        if self._tracer:
            self._tracer.start_test(test.id())
        signal.setitimer(signal.ITIMER_VIRTUAL, self._seconds, self._seconds)

    def _on_timeout(self, signal_number: int, frame: FrameType | None) -> None:
        self._num_timeouts += 1
        self.shouldStop = self._num_timeouts >= _MAX_TIMEOUTS
        raise TimeLimitReached(f"it took longer than {self._seconds:g} s")

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        super().stopTest(test)
        if self._tracer:
            self._tracer.end_test()
        self.passed -= self.failed.keys()


def write_files(files: Mapping[str, File]) -> None:
    """Writes files into the current folder. Links come last, so nothing is written through them."""
    created_folders: set[str] = set()
    for path, (mode, content) in sorted(files.items(), key=lambda item: item[1][0] == LINK_MODE):
        folder = path if mode == SUBMODULE_MODE else os.path.dirname(path)
        if folder and folder not in created_folders:
            os.makedirs(folder, exist_ok=True)
            created_folders.add(folder)
        if mode == LINK_MODE:
            os.symlink(content, path)
        elif mode != SUBMODULE_MODE:
            _write_file(path, content, 0o755 if mode == PROGRAM_MODE else 0o644)


def _write_file(path: str, content: bytes, mode: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        remaining = memoryview(content)
        while remaining:
            remaining = remaining[os.write(fd, remaining) :]
    finally:
        os.close(fd)
