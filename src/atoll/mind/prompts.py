"""What author and critic are told.

In the paper's order: general instructions, the task, how to write it, plans with what is wrong with them, how to think
critically, the answer.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from atoll.mind.tasks.problem import Problem

_PLAN = re.compile(r"<plan>(.*?)(?:</plan>|\Z)", re.DOTALL)
_CRITIC = re.compile(r"<critic>(.*?)</critic>", re.DOTALL)

GENERAL = "You solve a planning task together with others. A judge checks every plan and says what is wrong with it."
CRITIC = (
    "First be the critic: compare all plans above, name the best of them, and say in a few lines, each beginning with "
    "a dash, what contradicts the task and what should be changed first. Put that between <critic> and </critic>."
)
AUTHOR = "Then be the author: write one better plan that answers the critic. Put it between <plan> and </plan>."
ALONE = "Write one better plan. Put it between <plan> and </plan>."
BEGIN = "Think first, then write a plan. Put it between <plan> and </plan>."
ONLY_CRITIC = (
    "Be the critic: compare all plans above, name the best of them, and say in a few lines, each beginning with a "
    "dash, what contradicts the task and what should be changed first. Write no plan."
)
AGAIN = "Your last answer had no plan that can be read (attempt {number}). Keep to the form."


class Shown(NamedTuple):
    """A plan as a prompt shows it: its text, its score and what the judge said."""

    plan: str
    score: float
    feedback: str


@dataclass(frozen=True, slots=True)
class Prompter:
    """Writes prompts.

    Attributes:
        has_critic: Whether the model is to criticise before it writes.
        has_feedback: Whether it is told what is wrong, or the score alone.
        has_questions: Whether it is given the task's own questions.
        examples: Solved examples of the same task, as they are to be shown.
    """

    has_critic: bool = True
    has_feedback: bool = True
    has_questions: bool = True
    examples: str = ""

    def begin(self, problem: Problem) -> str:
        """Asks for a plan from nothing."""
        return self._joined(problem, (), (), self._questions(problem), BEGIN)

    def improve(
        self, problem: Problem, plans: Sequence[Shown], said: Sequence[str] = (), earlier: Sequence[Shown] = ()
    ) -> str:
        """Asks for one plan better than all that are shown.

        Args:
            problem: What is planned.
            plans: What to improve on, worst first.
            said: The dialogue so far.
            earlier: What the same conversation tried before that, oldest first.
        """
        if earlier:
            said = ["Earlier attempts of yours, oldest first:", *(self._attempt(each) for each in earlier), *said]
        think = f"{CRITIC}\n{self._questions(problem)}".strip() if self.has_critic else ""
        return self._joined(problem, plans, said, think, AUTHOR if self.has_critic else ALONE)

    def criticise(self, problem: Problem, plans: Sequence[Shown], said: Sequence[str] = ()) -> str:
        """Asks for a critique alone."""
        return self._joined(problem, plans, said, self._questions(problem), ONLY_CRITIC)

    def answer(self, problem: Problem, plans: Sequence[Shown], said: Sequence[str]) -> str:
        """Asks an author to answer a critique that somebody else wrote."""
        return replace(self, has_critic=False).improve(problem, plans, said)

    def elect(self, problem: Problem, plans: Sequence[Shown], number: int) -> str:
        """Asks for plans that are good and unlike each other, by their numbers."""
        shown = "\n\n".join(f"## Plan {place}, score {each.score:.4g}\n{each.plan}" for place, each in _numbered(plans))
        wish = (
            f"Choose {number} of these plans that are good and substantially different from each other. "
            "Answer with their numbers alone, separated by commas."
        )
        return f"{GENERAL}\n\n# Task\n{problem.text}\n\n# Plans\n{shown}\n\n{wish}\n"

    def _joined(self, problem: Problem, plans: Sequence[Shown], said: Sequence[str], think: str, wish: str) -> str:
        parts = [GENERAL, f"# Task\n{problem.text}", f"# Form\n{problem.form}"]
        parts += [f"# Examples\n{self.examples}"] if self.examples else []
        parts += [f"# Plans so far, the best last\n{self._plans(plans)}"] if plans else []
        parts += ["# What was said\n" + "\n\n".join(said)] if said else []
        parts += [f"# Critical thinking\n{think}"] if think else []
        return "\n\n".join([*parts, f"# Answer\n{wish}\n"])

    def _attempt(self, tried: Shown) -> str:
        return f"{tried.plan}\n(score {tried.score:.4g})" + (f"\n{tried.feedback}" if self.has_feedback else "")

    def _plans(self, plans: Sequence[Shown]) -> str:
        return "\n\n".join(
            f"## Plan {place}, score {each.score:.4g}\n<plan>\n{each.plan}\n</plan>"
            + (f"\nJudge:\n{each.feedback}" if self.has_feedback else "")
            for place, each in _numbered(plans)
        )

    def _questions(self, problem: Problem) -> str:
        if not self.has_questions:
            return ""
        return "\n".join(f"Question: {each}" for each in problem.questions)


def _numbered(plans: Sequence[Shown]) -> list[tuple[int, Shown]]:
    return list(enumerate(plans, 1))


def plan_in(reply: str) -> str:
    """Returns the last plan in a reply; the whole reply where it marks none."""
    criticised, rest = _parted(reply)
    found = _PLAN.findall(_CRITIC.sub("", criticised) + rest)
    return str(found[-1]).strip() if found else reply


def critique_in(reply: str) -> str:
    """Returns what the critic said in a reply; empty if it said nothing."""
    criticised, _ = _parted(reply)
    return "\n".join(each.strip() for each in _CRITIC.findall(criticised))


def _parted(reply: str) -> tuple[str, str]:
    """Parts a reply after its last critique: an opening tag beyond it has no end, however often that is looked for."""
    said, tag, rest = reply.rpartition("</critic>")
    return said + tag, rest


def numbers_in(reply: str, most: int) -> list[int]:
    """Returns the numbers in a reply that are numbers of plans, each once."""
    found = dict.fromkeys(int(each) for each in re.findall(r"\d+", reply) if len(each) < 6)
    return [each for each in found if 1 <= each <= most]
