"""Goals of a workspace: a text, and checks that decide whether it is reached."""

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from atoll import errors
from atoll.mind.workspace.runner import TestResults

_FAILED_IMPORT = "unittest.loader._FailedTest."  # unittest's name of a test file that cannot be imported
_MAX_GOAL_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class GoalResult:
    """State of the checks and of the tests that passed before.

    Attributes:
        open_checks: Checks that do not pass.
        broken: Tests that passed at the base and do not pass now.
    """

    open_checks: Sequence[str]
    broken: Sequence[str]


@dataclass(frozen=True, slots=True)
class Goal:
    """Goal of a run. It is reached when all checks pass and no test is broken. Without checks, a person decides.

    Attributes:
        text: The goal in words; empty to repair the failing tests.
        checks: Patterns of test names. A check passes when tests match it and all of these pass.
        passing: Tests that pass at the base.
    """

    text: str
    checks: Sequence[str]
    passing: frozenset[str]

    def compare(self, report: TestResults) -> GoalResult:
        """Compares test results with the goal."""
        open_checks = [pattern for pattern in self.checks if not _passes(pattern, report)]
        return GoalResult(open_checks, sorted(self.passing - report.passed))


def make_goal(text: str, patterns: Sequence[str], base: TestResults) -> Goal:
    """Returns the goal for the tests of the base. Without patterns, the failing tests are the checks.

    Raises:
        SetupError: All tests pass and no goal is given, or all checks pass already.
    """
    checks = tuple(patterns) or tuple(_make_pattern(name) for name in sorted(base.failed))
    if patterns and all(_passes(pattern, base) for pattern in patterns):
        raise errors.SetupError(
            f"All checks ({', '.join(patterns)[:100]}) pass already. Add a test that fails until the goal is reached."
        )
    if not checks and not text:
        raise errors.SetupError(
            f"All {len(base.passed)} tests pass, so there is nothing to repair. Pass --goal TEXT, and tests "
            "of the goal with task.checks."
        )
    return Goal(text, checks, base.passed)


def read_goal(value: str | None, folder: Path) -> str:
    """Returns a goal text. A value that names a file, in the task folder or here, stands for its content."""
    if not value:
        return ""
    if len(value) < 300 and "\n" not in value:
        for path in (folder / value, Path(value)):
            if path.is_file():
                return path.read_text("utf-8", errors="replace").strip()[:_MAX_GOAL_CHARS]
    return value.strip()[:_MAX_GOAL_CHARS]


def split_checks(checks: Sequence[str], folder: Path, tests: str) -> tuple[dict[str, bytes], list[str], list[Path]]:
    """Splits `task.checks` into test files of the task folder and patterns of test names.

    Returns the contents of the files by their path in the repository, the patterns, and the files.
    """
    contents, patterns, paths = dict[str, bytes](), list[str](), list[Path]()
    for check in checks:
        path = folder / check
        if check.endswith(".py") and path.is_file():
            contents[f"{tests}/{path.name}".removeprefix("./")] = path.read_bytes()
            patterns.append(f"*{path.stem}*")
            paths.append(path)
        else:
            patterns.append(check if any(character in check for character in "*?[") else f"*{glob.escape(check)}*")
    return contents, patterns, paths


def _make_pattern(name: str) -> str:
    if name.startswith(_FAILED_IMPORT):  # the name of its file, which later contains the tests
        return f"*{glob.escape(name.removeprefix(_FAILED_IMPORT))}*"
    return f"{glob.escape(name)}*" if name.endswith(".py") else glob.escape(name)


def _passes(pattern: str, report: TestResults) -> bool:
    names = [name for name in report.passed | report.failed if fnmatchcase(name, pattern)]
    return bool(names) and report.failed.isdisjoint(names)
