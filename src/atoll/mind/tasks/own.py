"""Your own problem: a class with a prompt, a parser and an evaluator becomes a problem of Mind Evolution."""

import json
import math
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

from atoll import errors, strategies
from atoll.mind.actions import Action, Task
from atoll.mind.tasks.problem import PlanError, PlanEvaluation

MOVE = "move"  # the role of an action


class PlanningProblem(Protocol):
    """Members of your class. It is made from one line of the data, a dictionary.

    Optional members: `plan_format` and `target` (texts for the LLM), `questions` (for the critic), `max_score` (a score
    that no plan can exceed; a plan that reaches it is solved). For a search without an LLM: `moves`, a list of texts,
    and `write(moves)`, which returns the plan of some of them.
    """

    def prompt(self) -> str:
        """Returns the task as text."""

    def parse(self, text: str, /) -> str | None:
        """Returns the plan in a response as canonical text. Raises ValueError with the reason, or returns None."""

    def evaluate(self, plan: str, /) -> tuple[float, str]:
        """Returns the score of a plan, higher is better, and its errors, one per line."""


@dataclass(frozen=True)
class OwnProblem:
    """Adapter from your class to a problem.

    Attributes:
        id: Id of the problem.
        own: Your object.
        name: Display name of the class, for errors.
    """

    id: str
    own: PlanningProblem
    name: str = "the problem"

    requires_all_moves = False

    @cached_property
    def text(self) -> str:
        return str(self._call("prompt"))

    @cached_property
    def max_score(self) -> float | None:
        bound: float | None = getattr(self.own, "max_score", None)
        return bound

    @cached_property
    def target(self) -> str:
        best = f" No plan can exceed {self.max_score:g}." if self.max_score is not None else ""
        return str(getattr(self.own, "target", f"Higher scores are better.{best}"))

    @cached_property
    def plan_format(self) -> str:
        return str(getattr(self.own, "plan_format", "Write one step per line."))

    @cached_property
    def questions(self) -> Sequence[str]:
        return tuple(getattr(self.own, "questions", ("Which requirement is easy to miss?",)))

    @cached_property
    def moves(self) -> Sequence[Action]:
        return tuple(Task(MOVE, str(move)) for move in getattr(self.own, "moves", ()))

    def format_plan(self, trace: Sequence[Action]) -> str:
        """Returns the plan that your `write` makes of a trace; without it, the moves as lines."""
        goals = [action.goal for action in trace if isinstance(action, Task)]
        return str(self._call("write", goals)) if hasattr(self.own, "write") else "\n".join(goals)

    def parse_trace(self, plan: str) -> tuple[Action, ...]:
        """Returns the moves that are lines of the plan."""
        goals = {action.goal for action in self.moves if isinstance(action, Task)}
        return tuple(Task(MOVE, line) for line in dict.fromkeys(plan.splitlines()) if line in goals)

    def parse_plan(self, response: str) -> str | None:
        plan = self._call("parse", response, passes=ValueError)
        return None if plan is None else str(plan)

    def evaluate(self, plan: str) -> PlanEvaluation:
        """Evaluates a plan with your `evaluate`.

        Raises:
            SetupError: Your method raised an exception, or returned something else than a score and a text.
        """
        result = self._call("evaluate", plan)
        if not (isinstance(result, tuple) and len(result) == 2 and _is_score(result[0]) and isinstance(result[1], str)):
            raise errors.SetupError(
                f"evaluate of {self.name} returned {result!r:.60}. Return a score and a text of errors."
            )
        score, messages = float(result[0]), result[1].splitlines()
        is_solved = self.max_score is not None and score >= self.max_score
        plan_errors = tuple(PlanError("own", message) for message in messages if message.strip())
        return PlanEvaluation(score, 1.0 if is_solved else self._compute_progress(score), is_solved, plan_errors)

    def _compute_progress(self, score: float) -> float:
        """Returns a number between 0 and 1 that rises with the score."""
        if self.max_score is not None:
            return 1.0 / (2.0 + max(0.0, self.max_score - score))
        return 0.5 + score / (2.0 * (1.0 + abs(score)))

    def _call(self, method: str, *arguments: Any, passes: type[Exception] | tuple[()] = ()) -> Any:
        """Calls a method of your class. An exception becomes one sentence that names the line."""
        try:
            return getattr(self.own, method)(*arguments)
        except passes:
            raise
        except Exception as error:
            line = traceback.extract_tb(error.__traceback__)[-1].lineno
            reason = f"{type(error).__name__}: {error!s:.120}".rstrip(". ")
            raise errors.SetupError(
                f"{method} of {self.name} failed on problem {self.id}, line {line}: {reason}. Fix it, then run again."
            ) from error


def _is_score(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def load_own_problems(name: str, folder: Path, data: Path, limit: int | None = None) -> tuple[list[OwnProblem], Path]:
    """Loads your class and makes a problem of each line of the data. Returns the problems and the file of the class.

    Args:
        name: "file.py:Class", relative to the folder.
        folder: Task folder.
        data: File with one JSON object per line.
        limit: Number of problems to read.

    Raises:
        SetupError: The class or the data cannot be read.
    """
    own_class, path = strategies.load_class("task.problem", name, folder)
    class_name = name.rpartition(":")[2]
    if any(not hasattr(own_class, method) for method in ("prompt", "parse", "evaluate")):
        raise errors.SetupError(f"{name} is not a problem. Write a class with the methods prompt, parse and evaluate.")
    problems = list[OwnProblem]()
    for number, line in enumerate((line for line in data.read_text("utf-8").splitlines() if line.strip()), 1):
        if limit is not None and number > limit:
            break
        row = _parse_line(data, number, line)
        own = errors.capture(partial(own_class, row), reraise=())
        if isinstance(own, errors.CaughtException):
            raise errors.SetupError(f"{name} cannot be made from line {number} of {data}: {own!s:.200}.")
        problems.append(OwnProblem(str(row.get("id", f"{class_name.lower()}_{number}")), own, name))
    if not problems or len({problem.id for problem in problems}) < len(problems):
        raise errors.SetupError(f"{data} has no problems or duplicate ids. Write one JSON object with its id per line.")
    return problems, path


def _parse_line(path: Path, number: int, line: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise errors.SetupError(f"Line {number} of {path} is not a JSON object. Write one problem per line.")
    return row
