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

INSTRUCTIONS = (
    "You solve a planning task together with others. A judge checks every plan and says what is wrong with it."
)
CRITIC_REQUEST = (
    "First be the critic: compare all plans above, name the best of them, and say in a few lines, each beginning with "
    "a dash, what contradicts the task and what should be changed first. Put that between <critic> and </critic>."
)
AUTHOR_REQUEST = "Then be the author: write one better plan that answers the critic. Put it between <plan> and </plan>."
AUTHOR_ONLY_REQUEST = "Write one better plan. Put it between <plan> and </plan>."
INITIAL_REQUEST = "Think first, then write a plan. Put it between <plan> and </plan>."
CRITIC_ONLY_REQUEST = (
    "Be the critic: compare all plans above, name the best of them, and say in a few lines, each beginning with a "
    "dash, what contradicts the task and what should be changed first. Write no plan."
)
RETRY_REQUEST = "Your last answer had no plan that can be read (attempt {number}). Keep to the form."


class PromptPlan(NamedTuple):
    """A plan as a prompt shows it: its text, its score and what the judge said."""

    plan: str
    score: float
    feedback: str


@dataclass(frozen=True, slots=True)
class PlanPromptBuilder:
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

    def build_initial(self, problem: Problem) -> str:
        """Asks for a plan from nothing."""
        return self._join_sections(problem, (), (), self._format_questions(problem), INITIAL_REQUEST)

    def build_improvement(
        self,
        problem: Problem,
        plans: Sequence[PromptPlan],
        dialogue: Sequence[str] = (),
        earlier: Sequence[PromptPlan] = (),
    ) -> str:
        """Asks for one plan better than all that are shown.

        Args:
            problem: What is planned.
            plans: What to improve on, worst first.
            said: The dialogue so far.
            earlier: What the same conversation tried before that, oldest first.
        """
        if earlier:
            dialogue = [
                "Earlier attempts of yours, oldest first:",
                *(self._format_attempt(attempt) for attempt in earlier),
                *dialogue,
            ]
        thinking = f"{CRITIC_REQUEST}\n{self._format_questions(problem)}".strip() if self.has_critic else ""
        return self._join_sections(
            problem, plans, dialogue, thinking, AUTHOR_REQUEST if self.has_critic else AUTHOR_ONLY_REQUEST
        )

    def build_critique(self, problem: Problem, plans: Sequence[PromptPlan], dialogue: Sequence[str] = ()) -> str:
        """Asks for a critique alone."""
        return self._join_sections(problem, plans, dialogue, self._format_questions(problem), CRITIC_ONLY_REQUEST)

    def build_revision(self, problem: Problem, plans: Sequence[PromptPlan], dialogue: Sequence[str]) -> str:
        """Asks an author to answer a critique that somebody else wrote."""
        return replace(self, has_critic=False).build_improvement(problem, plans, dialogue)

    def build_elite_selection(self, problem: Problem, plans: Sequence[PromptPlan], count: int) -> str:
        """Asks for plans that are good and unlike each other, by their numbers."""
        plans_text = "\n\n".join(
            f"## Plan {number}, score {plan.score:.4g}\n{plan.plan}" for number, plan in _number_plans(plans)
        )
        request = (
            f"Choose {count} of these plans that are good and substantially different from each other. "
            "Answer with their numbers alone, separated by commas."
        )
        return f"{INSTRUCTIONS}\n\n# Task\n{problem.text}\n\n# Plans\n{plans_text}\n\n{request}\n"

    def _join_sections(
        self, problem: Problem, plans: Sequence[PromptPlan], dialogue: Sequence[str], thinking: str, request: str
    ) -> str:
        sections = [INSTRUCTIONS, f"# Task\n{problem.text}", f"# Form\n{problem.plan_format}"]
        sections += [f"# Examples\n{self.examples}"] if self.examples else []
        sections += [f"# Plans so far, the best last\n{self._format_plans(plans)}"] if plans else []
        sections += ["# What was said\n" + "\n\n".join(dialogue)] if dialogue else []
        sections += [f"# Critical thinking\n{thinking}"] if thinking else []
        return "\n\n".join([*sections, f"# Answer\n{request}\n"])

    def _format_attempt(self, attempt: PromptPlan) -> str:
        return f"{attempt.plan}\n(score {attempt.score:.4g})" + (f"\n{attempt.feedback}" if self.has_feedback else "")

    def _format_plans(self, plans: Sequence[PromptPlan]) -> str:
        return "\n\n".join(
            f"## Plan {number}, score {plan.score:.4g}\n<plan>\n{plan.plan}\n</plan>"
            + (f"\nJudge:\n{plan.feedback}" if self.has_feedback else "")
            for number, plan in _number_plans(plans)
        )

    def _format_questions(self, problem: Problem) -> str:
        if not self.has_questions:
            return ""
        return "\n".join(f"Question: {question}" for question in problem.questions)


def _number_plans(plans: Sequence[PromptPlan]) -> list[tuple[int, PromptPlan]]:
    return list(enumerate(plans, 1))


def extract_plan(response: str) -> str:
    """Returns the last plan in a reply; the whole reply where it marks none."""
    critique, remaining = _split_critique(response)
    matches = _PLAN.findall(_CRITIC.sub("", critique) + remaining)
    return str(matches[-1]).strip() if matches else response


def extract_critique(response: str) -> str:
    """Returns what the critic said in a reply; empty if it said nothing."""
    critique, _ = _split_critique(response)
    return "\n".join(text.strip() for text in _CRITIC.findall(critique))


def _split_critique(response: str) -> tuple[str, str]:
    """Parts a reply after its last critique: an opening tag beyond it has no end, however often that is looked for."""
    critique, tag, remaining = response.rpartition("</critic>")
    return critique + tag, remaining


def extract_numbers(response: str, limit: int) -> list[int]:
    """Returns the numbers in a reply that are numbers of plans, each once."""
    numbers = dict.fromkeys(int(text) for text in re.findall(r"\d+", response) if len(text) < 6)
    return [number for number in numbers if 1 <= number <= limit]
