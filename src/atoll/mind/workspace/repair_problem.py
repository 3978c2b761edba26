"""Repository repair as a problem: goals with checks, plans of edits, and evaluation by the repository's tests."""

import glob
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Lock

from atoll import errors
from atoll.mind.actions import Action, Edit
from atoll.mind.fitness import TermSource
from atoll.mind.tasks.problem import PlanError, PlanEvaluation
from atoll.mind.workspace import edits, localize, reviews, tools
from atoll.mind.workspace.git import WorkspaceError
from atoll.mind.workspace.git_backend import GitBackend
from atoll.mind.workspace.runner import TestResults
from atoll.mind.worldline import BASE, Plan, Worldline

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


_MAX_EDITS = 6  # per plan without an LLM: most bugs need few edits, and each further one may break something
_MAX_FEEDBACK_CHARS = 4000  # characters of the test results in the prompt
_MAX_LISTED_FILES = 80
_MAX_NAMED_TESTS = 10
_W0 = Worldline(BASE)


@dataclass(slots=True)
class RepairProblem:
    """Makes a worldline of each plan, tests it, and keeps the best; see `tasks.problem.Problem`.

    Attributes:
        backend: Runs worldlines.
        text: The task as text.
        moves: Edits for plans without an LLM.
        goal: The goal and its checks.
        describe_location: Returns how to view an archived worldline; empty for a private copy.
        num_kept: Number of worldlines to keep for review.
        terms: Source of the terms of the fitness. With `simple`, a repaired test makes up for a broken one.
    """

    backend: GitBackend
    text: str
    moves: Sequence[Action]
    goal: Goal
    describe_location: Callable[[str], str]
    num_kept: int = 5
    terms: TermSource = "measured"
    id: str = "mend"
    target: str = "The score is minus the number of open checks, broken tests and failed edits. 0 is perfect."
    plan_format: str = edits.EDIT_FORMAT
    questions: Sequence[str] = (
        "Which line makes each failing test fail, and what does the test expect there?",
        "Which tests pass now, and would still pass after the change?",
        "Is there a smaller change that does the same?",
    )
    requires_all_moves: bool = False
    tool_text: str = tools.TOOL_TEXT
    _lock: Lock = field(default_factory=Lock)
    _plan_locks: dict[str, Lock] = field(default_factory=dict)
    _evaluations: dict[str, PlanEvaluation] = field(default_factory=dict)
    _retained: list[tuple[float, int, str]] = field(default_factory=list)

    @property
    def max_score(self) -> float | None:
        """The score 0; None without checks, because then no test decides about the goal."""
        return 0.0 if self.goal.checks else None

    def open_tools(self) -> tools.WorkspaceTools:
        """Returns tools for one plan. Its tests are those of `evaluate`."""
        return tools.WorkspaceTools(self.backend, self._test_plan)

    def _test_plan(self, plan: str) -> tuple[bool, str]:
        result = self.evaluate(plan)
        return result.is_solved, result.format_feedback()

    def format_plan(self, trace: Sequence[Action]) -> str:
        """Returns the last edits of a trace that fit together. Of two edits of the same text, the later counts.

        A trace of all moves, where no selection was made yet, gives only its last edit.
        """
        chosen, contents = list[Edit](), dict[str, str]()
        max_edits = _MAX_EDITS if len(trace) <= 2 * _MAX_EDITS else 1
        for action in reversed(trace):
            if isinstance(action, Edit) and len(chosen) < max_edits:
                before = contents.get(action.path) or self._read_text(action.path) or ""
                after = edits.apply_edits(before, [action])
                if after is not None:
                    contents[action.path] = after
                    chosen.append(action)
        return edits.format_edits(chosen[::-1])

    def parse_trace(self, plan: str) -> tuple[Action, ...]:
        """Returns the edits of a plan."""
        return edits.parse_edits(plan)

    def parse_plan(self, response: str) -> str | None:
        """Returns the edits of a response, adjusted to the files, or None."""
        return edits.format_edits(edits.fit_edits(response, self._read_text)) or None

    def evaluate(self, plan: str) -> PlanEvaluation:
        """Makes the worldline of a plan and tests it. Results are cached."""
        name = reviews.make_worldline_id(plan)
        with self._lock:
            plan_lock = self._plan_locks.setdefault(name, Lock())
        with plan_lock:
            if name not in self._evaluations:
                self._evaluations[name] = self._evaluate_plan(plan, name)
        return self._evaluations[name]

    def _evaluate_plan(self, plan: str, name: str) -> PlanEvaluation:
        fork_plan = self._make_fork_plan(plan)
        worldline = self.backend.run(self.backend.fork(_W0, fork_plan, name), fork_plan)
        plan_evaluation = self._make_evaluation(self.backend.report(worldline), worldline)
        self.backend.archive(worldline)
        for discarded in self._keep(plan_evaluation, name):
            self.backend.workspace.discard(discarded)
        return plan_evaluation

    def _keep(self, plan_evaluation: PlanEvaluation, name: str) -> list[str]:
        """Adds a worldline that is better than the base to the kept ones. Returns those that are not kept.

        Of equal scores, smaller changes are kept.
        """
        num_lines = int(plan_evaluation.metrics["changed_lines"])
        with self._lock:
            is_better = plan_evaluation.score > -len(self.goal.checks) or not self.goal.checks
            if not num_lines or not is_better:
                return [name]
            self._retained = sorted({*self._retained, (-plan_evaluation.score, num_lines, name)})
            discarded, self._retained = self._retained[self.num_kept :], self._retained[: self.num_kept]
        return [item[2] for item in discarded]

    def archive_plan(self, plan: str) -> str:
        """Archives the worldline of a plan in place of the previous best. Returns its name."""
        name, fork_plan = reviews.make_worldline_id(plan), self._make_fork_plan(plan)
        if name not in self.backend.workspace.list_archived():
            self.backend.archive(self.backend.run(self.backend.fork(_W0, fork_plan, name), fork_plan))
        with self._lock:
            others = [item for item in self._retained if item[2] != name]
            discarded, self._retained = (
                others[self.num_kept - 1 :],
                [(-float("inf"), 0, name), *others[: self.num_kept - 1]],
            )
        for item in discarded:
            self.backend.workspace.discard(item[2])
        return name

    def _make_fork_plan(self, plan: str) -> Plan:
        return Plan(self.parse_trace(plan), note=self.goal.text.partition("\n")[0][:70] or "Repair failing tests")

    def _make_evaluation(self, report: TestResults, worldline: Worldline) -> PlanEvaluation:
        edit_errors = [
            PlanError("edit", f"An edit failed: {action_result.output}")
            for action_result in worldline.tool_history
            if not action_result.is_ok
        ]
        goal, result = self.goal, report.evaluation
        num_lines = self._count_lines(worldline)
        if result.failure is not None:
            plan_errors = (*edit_errors, PlanError("tests", f"{result.failure}\n{result.feedback}".strip()))
            score = -float(len(goal.checks) + len(goal.passing) + len(edit_errors))
            return PlanEvaluation(score, 0.0, False, plan_errors, 1.0, metrics={"changed_lines": float(num_lines)})
        state = goal.compare(report)
        num_failed, total = len(state.open_checks) + len(state.broken), max(1, len(goal.checks) + len(goal.passing))
        metrics = {
            "changed_lines": float(num_lines),
            "passed": float(len(report.passed)),
            "tests": float(len(report.passed | report.failed)),
            "open_checks": float(len(state.open_checks)),
            "broken_tests": float(len(state.broken)),
        }
        messages = [f"Open check: {name}" for name in state.open_checks[:_MAX_NAMED_TESTS]]
        messages += [f"Broken test: {name}" for name in state.broken[:_MAX_NAMED_TESTS]]
        messages += [result.feedback] if messages else []
        plan_errors = (
            *edit_errors,
            *([PlanError("tests", "\n".join(messages), weight=num_failed)] if messages else []),
        )
        is_done = not num_failed and not edit_errors
        is_solved = is_done and bool(goal.checks) and num_lines > 0
        notes = (self._describe_success(worldline, report),) if is_done else ()
        num_lost = len(state.broken) if self.terms == "measured" else max(0, len(goal.passing) - len(report.passed))
        progress = (total - num_failed) / total
        return PlanEvaluation(
            0.0 - num_failed - len(edit_errors),
            progress if goal.checks else 0.9 * progress,
            is_solved,
            plan_errors,
            num_lost / max(1, len(goal.passing)),
            notes,
            metrics,
        )

    def _describe_success(self, worldline: Worldline, report: TestResults) -> str:
        if not self.goal.checks:
            return "No test is broken. The goal has no checks, so a person decides whether it is reached."
        tests = f"All {len(self.goal.checks)} checks pass, and {len(report.passed)} tests."
        return f"{tests} {self.describe_location(worldline.worldline_id)}".strip()

    def _count_lines(self, worldline: Worldline) -> int:
        changes = self.backend.workspace.numstat(worldline.worldline_id)
        return sum((change.added or 1) + (change.deleted or 0) for change in changes)

    def _read_text(self, path: str) -> str | None:
        try:
            content = self.backend.read_file(self.backend.workspace.base, path)
        except WorkspaceError:
            return None
        return None if content is None else content.decode(errors="replace")


def describe_task(
    backend: GitBackend,
    goal: Goal,
    protected: Sequence[str],
    report: TestResults,
    evidence: localize.Evidence,
    max_chars: int,
) -> str:
    """Returns the task as text: the goal, the files, the test results, and the code that localization selects.

    Args:
        backend: Reads the files.
        goal: The goal.
        protected: Patterns of files that worldlines must not change.
        report: Test results of the base.
        evidence: Evidence about the code to change.
        max_chars: Maximal number of characters of code.
    """
    texts = backend.base_texts
    is_test = {path: is_test_path(path) for path in texts}
    snippets = localize.rank(texts, evidence, is_test)
    code = localize.show(texts, snippets, max_chars, evidence.suspicion)
    request = f"Reach this goal in a repository:\n{goal.text}" if goal.text else "Repair a repository."
    end = "All checks must pass, and no passing test may break." if goal.checks else "No passing test may break."
    feedback = report.evaluation.feedback
    sections = [
        f"{request}\n{end}",
        f"Files ({len(texts)}): {_list_files(texts)}",
        f"Do not change: {', '.join(protected) or 'nothing is protected'}",
        f"Current test results:\n{feedback[:_MAX_FEEDBACK_CHARS]}",
        f"Code that is most likely concerned, the most likely first:\n\n{code}" if code else "",
    ]
    return "\n\n".join(section for section in sections if section)


def is_test_path(path: str) -> bool:
    """Returns whether a file is a test, by its path."""
    folders, name = path.split("/")[:-1], path.rpartition("/")[2]
    return any(folder in ("test", "tests") for folder in folders) or name.startswith("test_") or name == "conftest.py"


def _list_files(texts: Mapping[str, str]) -> str:
    """Returns the paths; in a large repository, the folders with their numbers of files."""
    if len(texts) <= _MAX_LISTED_FILES:
        return ", ".join(sorted(texts))
    counts = dict[str, int]()
    for path in sorted(texts):
        folder = path.rpartition("/")[0] or "."
        counts[folder] = counts.get(folder, 0) + 1
    return ", ".join(f"{folder}/ ({count})" for folder, count in list(counts.items())[:_MAX_LISTED_FILES])
