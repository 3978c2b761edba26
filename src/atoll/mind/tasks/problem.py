"""Interface of a planning problem: its text, its moves and its evaluation."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from atoll.candidate import EMPTY
from atoll.mind.actions import Action, Result


@dataclass(frozen=True, slots=True)
class PlanError:
    """One error of a plan.

    Attributes:
        kind: Kind of error, in one word.
        message: Description for author and critic.
        goal: Goal of the action that it concerns; empty for the whole plan.
        expected_time: Correct day or minute, if known.
        other_goal: Goal of another action that it concerns.
        weight: Penalty in the score.
    """

    kind: str
    message: str
    goal: str = ""
    expected_time: int | None = None
    other_goal: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class PlanEvaluation:
    """Evaluation of a plan by its task: score, verification and explanation.

    Attributes:
        score: Score of the task, higher is better. For trips, 0 is perfect.
        progress: Completed share of the task, 0 to 1.
        is_solved: Whether the task knows no better plan.
        errors: Errors of the plan.
        contradiction: Share of the plan that contradicts its earlier parts, 0 to 1.
        notes: Further remarks.
        metrics: Further numbers of the task.
    """

    score: float
    progress: float
    is_solved: bool
    errors: tuple[PlanError, ...] = ()
    contradiction: float = 0.0
    notes: tuple[str, ...] = ()
    metrics: Mapping[str, float] = EMPTY

    def format_feedback(self) -> str:
        """Returns errors and notes as text for the next author and critic."""
        lines = [f"- {error.message}" for error in self.errors] + list(self.notes)
        return "\n".join(lines) if lines else "Every constraint is satisfied."


class Problem(Protocol):
    """One problem of a task. It does not know its solution."""

    @property
    def id(self) -> str: ...

    @property
    def text(self) -> str:
        """The task as text for an LLM."""

    @property
    def target(self) -> str:
        """Meaning of the score and the best score, as text for an LLM."""

    @property
    def plan_format(self) -> str:
        """Format of a plan, as text for an LLM."""

    @property
    def max_score(self) -> float | None:
        """Score that no plan can exceed; None if unknown. It decides about claims that a plan is optimal.

        If a plan with this score may be unsolved, because the LLM does not know the bound, the optional attribute
        `is_solved_at_max_score` is False. Prompts then ask for claims.
        """

    @property
    def questions(self) -> Sequence[str]:
        """Questions for the critic: the paper's Strategy/Question prompts."""

    @property
    def requires_all_moves(self) -> bool:
        """True if a plan needs every move."""

    @property
    def moves(self) -> Sequence[Action]:
        """Allowed actions of decision traces, each at most once."""

    def format_plan(self, trace: Sequence[Action]) -> str:
        """Returns the plan of a decision trace as canonical text."""

    def parse_trace(self, plan: str) -> tuple[Action, ...]:
        """Returns the decisions of a plan."""

    def parse_plan(self, response: str) -> str | None:
        """Returns the plan in a response as canonical text, or None.

        Raises:
            ValueError: The response is not a plan. The message tells the LLM why.
        """

    def evaluate(self, plan: str) -> PlanEvaluation:
        """Evaluates a plan. Accepts any text and never raises."""


class ToolSession(Protocol):
    """Tools of one author, for one plan. Edits in a session accumulate."""

    @property
    def results(self) -> Sequence[Result]:
        """Results of all actions so far."""

    def use_tools(self, response: str, num_left: int) -> str | None:
        """Runs the tools that a response asks for. Returns their output, or None if it asks for none.

        Args:
            response: Response of an LLM.
            num_left: Number of further responses with tools, which the output states.
        """

    def read_plan(self, response: str) -> str | None:
        """Returns the plan: the edits of the session and of this last response. None without edits."""

    def work_in_folder(self) -> AbstractContextManager[None]:
        """Lets command-line agents, while the context is open, work in a folder with the files."""


@runtime_checkable
class ToolProblem(Protocol):
    """Problem whose authors have tools: an optional second ability of a `Problem`."""

    @property
    def tool_text(self) -> str:
        """Description of the tools for an LLM."""

    def open_tools(self) -> ToolSession:
        """Returns tools for one plan."""
