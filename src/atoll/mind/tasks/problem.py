"""What a search knows of a task: its words, what its plans are made of, and a judge that says what is wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from atoll.mind.actions import Action


@dataclass(frozen=True, slots=True)
class PlanError:
    """One thing that is wrong with a plan.

    Attributes:
        kind: What sort of thing, in one word.
        text: What is wrong, for author and critic.
        about: The goal of the action that it concerns; empty: the plan as a whole.
        when: The day or minute that would be right, if one is.
        other: The goal of another action that it concerns.
        weight: What it costs in score.
    """

    kind: str
    message: str
    goal: str = ""
    expected_time: int | None = None
    other_goal: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class PlanEvaluation:
    """What the judge of a task says of a plan: its three jobs are to score, to verify and to explain.

    Attributes:
        score: As the task counts, higher is better; trips: 0 is perfect.
        progress: How much of the task is done, 0 to 1.
        is_solved: Whether nothing better is possible, as far as the task itself tells.
        faults: What is wrong.
        contradiction: How much of the plan contradicts what comes before it, 0 to 1.
        notes: What else to tell.
    """

    score: float
    progress: float
    is_solved: bool
    errors: tuple[PlanError, ...] = ()
    contradiction: float = 0.0
    notes: tuple[str, ...] = ()

    def format_feedback(self) -> str:
        """Returns all of it in words, for the next author and critic."""
        lines = [f"- {error.message}" for error in self.errors] + list(self.notes)
        return "\n".join(lines) if lines else "Every constraint is satisfied."


class Problem(Protocol):
    """One instance of a task. It knows nothing of a solution."""

    @property
    def id(self) -> str: ...

    @property
    def text(self) -> str:
        """The task in words, as a model is told it."""

    @property
    def plan_format(self) -> str:
        """How a plan is to be written, as a model is told it."""

    @property
    def questions(self) -> Sequence[str]:
        """What a critic should ask: the paper's Strategy/Question prompts."""

    @property
    def requires_all_moves(self) -> bool:
        """Whether a plan needs every move."""

    @property
    def moves(self) -> Sequence[Action]:
        """What decision traces are made of, each at most once."""

    def format_plan(self, trace: Sequence[Action]) -> str:
        """Returns the plan that decisions make, in canonical words."""

    def parse_trace(self, plan: str) -> tuple[Action, ...]:
        """Returns the decisions in a plan."""

    def parse_plan(self, response: str) -> str | None:
        """Returns the plan in a model's reply in canonical words, or None if there is none."""

    def evaluate(self, plan: str) -> PlanEvaluation:
        """Judges a plan; whatever it says, never raises."""
