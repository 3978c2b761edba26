"""Repository repair as a problem. Plans are edits, and the repository's tests evaluate them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from atoll.candidate import content_hash
from atoll.evaluation import Evaluation
from atoll.mind.actions import Action, Edit
from atoll.mind.tasks.problem import PlanError, PlanEvaluation
from atoll.mind.workspace import patches
from atoll.mind.workspace.git_backend import GitBackend
from atoll.mind.workspace.path_checks import WorkspaceError
from atoll.mind.worldline import BASE, Plan, Worldline

_MAX_EDITS = 6  # per plan without an LLM: most bugs need few edits, and each further one may break something
_MAX_TEXT_CHARS = 40_000  # characters of files in the prompt
_COMMIT_NOTE = "Repair failing tests"
_W0 = Worldline(BASE)


@dataclass(slots=True)
class RepairProblem:
    """Makes a worldline of each plan, tests it, and keeps the best; see `tasks.problem.Problem`.

    Attributes:
        backend: Runs worldlines.
        text: The task as text.
        moves: Edits for plans without an LLM.
        num_passing: Number of tests that pass at the base.
        num_tests: Number of tests.
        describe_location: Returns how to view an archived worldline; empty for a private copy.
    """

    backend: GitBackend
    text: str
    moves: Sequence[Action]
    num_passing: int
    num_tests: int
    describe_location: Callable[[str], str]
    id: str = "mend"
    target: str = "The score is minus the number of failing tests and failed edits. 0 is perfect."
    max_score: float = 0.0
    plan_format: str = patches.EDIT_FORMAT
    questions: Sequence[str] = (
        "Which line makes each failing test fail, and what does the test expect there?",
        "Which tests pass now, and would still pass after the change?",
        "Is there a smaller change that does the same?",
    )
    requires_all_moves: bool = False
    _lock: Lock = field(default_factory=Lock)
    _plan_locks: dict[str, Lock] = field(default_factory=dict)
    _evaluations: dict[str, PlanEvaluation] = field(default_factory=dict)
    _best: tuple[float, str] = (-float("inf"), "")

    def format_plan(self, trace: Sequence[Action]) -> str:
        """Returns the last edits of a trace that fit together. Of two edits of the same text, the later counts.

        A trace of all moves, where no selection was made yet, gives only its last edit.
        """
        chosen, contents = list[Edit](), dict[str, str]()
        max_edits = _MAX_EDITS if len(trace) <= 2 * _MAX_EDITS else 1
        for action in reversed(trace):
            if isinstance(action, Edit) and len(chosen) < max_edits:
                before = contents.get(action.path) or self._read_text(action.path) or ""
                after = patches.apply_edits(before, [action])
                if after is not None:
                    contents[action.path] = after
                    chosen.append(action)
        return patches.format_edits(chosen[::-1])

    def parse_trace(self, plan: str) -> tuple[Action, ...]:
        """Returns the edits of a plan."""
        return patches.parse_edits(plan)

    def parse_plan(self, response: str) -> str | None:
        """Returns the edits of a response, adjusted to the files, or None."""
        return patches.format_edits(patches.fit_edits(response, self._read_text)) or None

    def evaluate(self, plan: str) -> PlanEvaluation:
        """Makes the worldline of a plan and tests it. Results are cached."""
        name = content_hash(plan)[:16]
        with self._lock:
            plan_lock = self._plan_locks.setdefault(name, Lock())
        with plan_lock:
            if name not in self._evaluations:
                self._evaluations[name] = self._evaluate_plan(plan, name)
        return self._evaluations[name]

    def _evaluate_plan(self, plan: str, name: str) -> PlanEvaluation:
        fork_plan = Plan(self.parse_trace(plan), note=_COMMIT_NOTE)
        worldline = self.backend.run(self.backend.fork(_W0, fork_plan, name), fork_plan)
        result = self.backend.test(worldline)
        plan_evaluation = self._make_evaluation(result, worldline)
        with self._lock:
            is_best = plan_evaluation.score > self._best[0]
            previous, self._best = self._best, (plan_evaluation.score, name) if is_best else self._best
        self.backend.archive(worldline) if is_best else self.backend.discard(worldline)
        if is_best and previous[1]:
            self.backend.workspace.discard(previous[1])
        return plan_evaluation

    def archive_plan(self, plan: str) -> str:
        """Archives the worldline of a plan in place of the previous best. Returns its name."""
        name, fork_plan = content_hash(plan)[:16], Plan(self.parse_trace(plan), note=_COMMIT_NOTE)
        if name not in self.backend.workspace.list_archived():
            self.backend.archive(self.backend.run(self.backend.fork(_W0, fork_plan, name), fork_plan))
        with self._lock:
            previous, self._best = self._best[1], (self._best[0], name)
        if previous not in ("", name):
            self.backend.workspace.discard(previous)
        return name

    def _make_evaluation(self, result: Evaluation, worldline: Worldline) -> PlanEvaluation:
        edit_errors = [
            PlanError("edit", f"An edit failed: {action_result.output}")
            for action_result in worldline.tool_history
            if not action_result.is_ok
        ]
        if result.failure is not None:
            plan_errors = (*edit_errors, PlanError("tests", f"{result.failure}\n{result.feedback}".strip()))
            return PlanEvaluation(-float(self.num_tests + len(edit_errors)), 0.0, False, plan_errors, 1.0)
        num_passed, num_tests = result.metrics["passed"], max(result.metrics["tests"], self.num_tests)
        num_failed = num_tests - num_passed
        plan_errors = (*edit_errors, *([PlanError("tests", result.feedback, weight=num_failed)] if num_failed else []))
        contradiction = max(0.0, self.num_passing - num_passed) / max(1, self.num_passing)
        is_solved = not num_failed and not edit_errors
        notes = (
            (f"All {num_tests:.0f} tests pass. {self.describe_location(worldline.worldline_id)}".strip(),)
            if is_solved
            else ()
        )
        return PlanEvaluation(
            0.0 - num_failed - len(edit_errors), num_passed / num_tests, is_solved, plan_errors, contradiction, notes
        )

    def _read_text(self, path: str) -> str | None:
        try:
            content = self.backend.read_file(self.backend.workspace.base, path)
        except WorkspaceError:
            return None
        return None if content is None else content.decode(errors="replace")


def describe_task(files: Mapping[str, str], protected: Sequence[str], result: Evaluation) -> str:
    """Returns the task as text: the files, the failing tests, and as many file contents as fit."""
    sections = [
        "Repair a repository. Change its files so that all of its tests pass.",
        f"Files: {', '.join(files)}",
        f"Do not change: {', '.join(protected) or 'nothing is protected'}",
        f"Current test results:\n{result.feedback}",
    ]
    remaining_chars = _MAX_TEXT_CHARS - sum(map(len, sections))
    for path, text in files.items():
        remaining_chars -= len(text)
        if remaining_chars < 0:
            sections.append(f"({path} and later files are omitted, because the prompt is full.)")
            break
        sections.append(f"FILE: {path}\n```\n{text}\n```")
    return "\n\n".join(sections)
