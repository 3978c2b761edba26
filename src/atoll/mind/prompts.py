"""Prompts of author and critic, and the memory of a conversation: earlier turns, open points, claims."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from atoll import evaluation, llm, mutation
from atoll.candidate import JSON
from atoll.llm import base
from atoll.mind import actions
from atoll.mind.tasks.problem import Problem, ToolProblem

_PLAN = re.compile(r"<plan>(.*?)(?:</plan>|\Z)", re.DOTALL)
_CRITIC = re.compile(r"<critic>(.*?)</critic>", re.DOTALL)

INSTRUCTIONS = "You solve a planning task. An evaluator checks every plan, scores it and reports its errors."
TOOL_INSTRUCTIONS = "You change a program. A plan is a set of edits. Tests check every plan, and report its errors."
ANSWER_FORMAT = "Write only one plan, between <plan> and </plan>."
CRITIC_REQUEST = (
    "First be the critic. Take the best plan above and its feedback. List what contradicts the task and what to change "
    "first, in at most three short lines that begin with a dash, between <critic> and </critic>."
)
AUTHOR_REQUEST = "Then be the author. Write one better plan, all of its lines, between <plan> and </plan>."
AUTHOR_ONLY_REQUEST = "Write one better plan, all of its lines, between <plan> and </plan>."
INITIAL_REQUEST = "Think in a few short lines. Then write the whole plan between <plan> and </plan>."
RETRY_REQUEST = (
    "Your last response had no readable plan. {reason} Write the whole plan again, in this format:\n{plan_format}\n"
    f"{ANSWER_FORMAT}"
)
CLAIM_REQUEST = (
    "If no plan can be better, write the best plan again, and after it the proof between <optimal> and </optimal>."
)
VERIFY_REQUEST = (
    "Another planner claims that no plan can be better than this one. The reason:\n{claim}\nCheck the reason step by "
    "step. End with the word AGREE if it is a proof, or with the word DISAGREE and the gap."
)
_MAX_QUOTE_CHARS = 200  # characters of a quoted line


class PromptPlan(NamedTuple):
    """Plan as a prompt shows it: text, score and feedback. A plan without a score is not evaluated yet."""

    plan: str
    score: float | None
    feedback: str

    def format_title(self, number: int) -> str:
        return f"## Plan {number}" + ("" if self.score is None else f", score {self.score:.4g}")


@dataclass(frozen=True, slots=True)
class PlanPromptBuilder:
    """Builds prompts.

    Attributes:
        has_critic: Whether the LLM criticizes before it writes.
        has_feedback: Whether prompts contain the feedback, or only the score.
        has_questions: Whether prompts contain the questions of the task.
        examples: Text of solved examples of the same task.
        attempt: Number of the attempt. It keeps prompts about the same plans different from each other.
        has_tools: Whether authors may use the tools of a problem that has some.
        notes: Texts of the memory.
    """

    has_critic: bool = True
    has_feedback: bool = True
    has_questions: bool = True
    examples: str = ""
    attempt: str = ""
    has_tools: bool = False
    notes: tuple[str, ...] = ()

    def build_initial(self, problem: Problem) -> str:
        """Asks for a first plan."""
        return self._join_sections(problem, (), (), self._format_questions(problem), INITIAL_REQUEST, is_author=True)

    def build_improvement(
        self,
        problem: Problem,
        plans: Sequence[PromptPlan],
        dialogue: Sequence[str] = (),
        memory: Sequence[str] = (),
        points: Sequence[str] = (),
    ) -> str:
        """Asks for a plan better than all shown.

        Args:
            problem: The problem.
            plans: Plans to improve on, worst first.
            dialogue: The dialogue so far.
            memory: Earlier plans of the same conversation as text, oldest first.
            points: Points of the critic that no plan has answered.
        """
        if memory:
            dialogue = ["Your earlier attempts, oldest first:", *memory, *dialogue]
        if points:
            dialogue = [*dialogue, "Open points of the critic:\n" + "\n".join(points)]
        thinking = f"{CRITIC_REQUEST}\n{self._format_questions(problem)}".strip() if self.has_critic else ""
        request = AUTHOR_REQUEST if self.has_critic else AUTHOR_ONLY_REQUEST
        if problem.max_score is None or not getattr(problem, "is_solved_at_max_score", True):
            request = f"{request} {CLAIM_REQUEST}"  # otherwise a plan with the best score has ended the search
        return self._join_sections(problem, plans, dialogue, thinking, request, is_author=True)

    def build_verification(self, problem: Problem, plan: PromptPlan, claim: str) -> str:
        """Asks a critic whether a plan is optimal."""
        return self._join_sections(problem, [plan], (), "", VERIFY_REQUEST.format(claim=claim))

    def build_role(self, problem: Problem, role: actions.Role, plans: Sequence[PromptPlan] = ()) -> str:
        """Asks a sub-agent for its note."""
        return self._join_sections(problem, plans, (), "", actions.REQUESTS[role])

    def build_fork(self, problem: Problem, plan: PromptPlan, point: str) -> str:
        """Asks an author for a plan that answers one point of the critic."""
        request = (
            f"The critic made this point about the plan above:\n- {point}\nWrite one plan that answers this point."
        )
        return self._join_sections(problem, [plan], (), "", request, is_author=True)

    def build_critique(self, problem: Problem, plans: Sequence[PromptPlan], dialogue: Sequence[str] = ()) -> str:
        """Asks for a critique only."""
        return self._join_sections(
            problem, plans, dialogue, self._format_questions(problem), actions.REQUESTS["critic"]
        )

    def build_revision(
        self,
        problem: Problem,
        plans: Sequence[PromptPlan],
        dialogue: Sequence[str],
        memory: Sequence[str] = (),
        points: Sequence[str] = (),
    ) -> str:
        """Asks an author to answer a critique from the dialogue."""
        return replace(self, has_critic=False).build_improvement(problem, plans, dialogue, memory, points)

    def build_elite_selection(self, problem: Problem, plans: Sequence[PromptPlan], count: int) -> str:
        """Asks for the numbers of good and diverse plans."""
        plans_text = "\n\n".join(f"{plan.format_title(number)}\n{plan.plan}" for number, plan in _number_plans(plans))
        request = (
            f"Choose {count} of these plans that are good and substantially different from each other. "
            "Answer with their numbers alone, separated by commas."
        )
        return llm.ChatPrompt(
            ("system", f"{INSTRUCTIONS}\n\n# Task\n{problem.text}"), ("user", f"# Plans\n{plans_text}\n\n{request}\n")
        )

    def _join_sections(
        self,
        problem: Problem,
        plans: Sequence[PromptPlan],
        dialogue: Sequence[str],
        thinking: str,
        request: str,
        *,
        is_author: bool = False,
    ) -> str:
        has_tools = is_author and self.has_tools and isinstance(problem, ToolProblem)
        constant_sections = [
            TOOL_INSTRUCTIONS if isinstance(problem, ToolProblem) else INSTRUCTIONS,
            f"# Task\n{problem.text}",
            f"# Score\n{problem.target}",
            *([f"# Tools\n{problem.tool_text}"] if has_tools and isinstance(problem, ToolProblem) else []),
            f"# Plan format\n{problem.plan_format}\n{ANSWER_FORMAT}",
        ]
        constant_sections += [f"# Examples\n{self.examples}"] if self.examples else []
        sections = ["# Notes\n" + "\n\n".join(self.notes)] if self.notes else []
        sections += [f"# Plans so far, the best last\n{self._format_plans(plans)}"] if plans else []
        sections += ["# Dialogue\n" + "\n\n".join(dialogue)] if dialogue else []
        sections += [f"# Critical thinking\n{thinking}"] if thinking else []
        attempt = [f"(Attempt {self.attempt})"] if self.attempt else []
        user_text = "\n\n".join([*attempt, *sections, f"# Answer\n{request}\n"])
        return llm.ChatPrompt(("system", "\n\n".join(constant_sections)), ("user", user_text))

    def _format_plans(self, plans: Sequence[PromptPlan]) -> str:
        return "\n\n".join(
            f"{plan.format_title(number)}\n<plan>\n{plan.plan}\n</plan>"
            + (f"\nFeedback:\n{shorten_feedback(plan.feedback)}" if self.has_feedback and plan.feedback else "")
            for number, plan in _number_plans(plans)
        )

    def _format_questions(self, problem: Problem) -> str:
        if not self.has_questions:
            return ""
        return "\n".join(["Think about these questions:", *(f"- {question}" for question in problem.questions)])


def _number_plans(plans: Sequence[PromptPlan]) -> list[tuple[int, PromptPlan]]:
    return list(enumerate(plans, 1))


class ReadPlan(NamedTuple):
    """Plan of a response in the format of its problem, or the reason why there is none."""

    plan: str | None
    reason: str = ""


def read_plan(problem: Problem, response: str) -> ReadPlan:
    """Reads the plan of a response: between tags, in the main fenced block, or anywhere.

    Without a plan, the reason quotes the line that was not understood.
    """
    reason = ""
    for text in dict.fromkeys(_find_plan_texts(response)):
        try:
            plan = problem.parse_plan(text)
        except ValueError as error:
            plan, reason = None, reason or str(error)
        if plan is not None:
            return ReadPlan(plan)
        reason = reason or _quote_line(text)
    return ReadPlan(None, reason)


def _find_plan_texts(response: str) -> list[str]:
    """Returns the texts of a response that may be its plan, the most likely first."""
    cleaned = mutation.clean_response(response)
    critique, remaining = _split_critique(cleaned)
    without_critique = _CRITIC.sub("", critique) + remaining
    texts = [str(match).strip() for match in reversed(_PLAN.findall(without_critique)[-2:])]
    return [*(mutation.extract_text(text) for text in texts), mutation.extract_text(without_critique), without_critique]


def _quote_line(text: str) -> str:
    """Returns a sentence that quotes the first line with a number, or else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("```")]
    if not lines:
        return "It was empty."
    line = next((line for line in lines if any(character.isdigit() for character in line)), lines[0])
    return f'This line was not understood: "{line[:_MAX_QUOTE_CHARS]}".'


def extract_critique(response: str) -> str:
    """Returns the critique in a response; empty if it has none."""
    critique, _ = _split_critique(response)
    return "\n".join(text.strip() for text in _CRITIC.findall(critique))


def _split_critique(response: str) -> tuple[str, str]:
    """Splits a response after its last critique. This avoids slow searches for unclosed tags."""
    critique, tag, remaining = response.rpartition("</critic>")
    return critique + tag, remaining


def extract_numbers(response: str, limit: int) -> list[int]:
    """Returns the distinct plan numbers in a response."""
    numbers = dict.fromkeys(int(text) for text in re.findall(r"\d+", response) if len(text) < 6)
    return [number for number in numbers if 1 <= number <= limit]


CHARS_PER_TOKEN = 4
_CLAIM = re.compile(r"<optimal>(.*?)(?:</optimal>|\Z)", re.DOTALL)
_AGREEMENT = re.compile(r"\b(AGREE|DISAGREE)\b")
_MAX_TOOL_CHARS, _MAX_TOOLS = 400, 30  # tools in a candidate's metadata, and characters of their outputs
_MAX_POINTS = 8
_MAX_ERRORS = 8  # of a plan, in a prompt
_MAX_EXCHANGE_CHARS, _MAX_OLD_CHARS = 24_000, 300  # of tool outputs in a prompt, and of an old one
_MAX_CLAIM_CHARS = 2000


def shorten_feedback(feedback: str) -> str:
    """Returns feedback with its first errors, each once. A small LLM copies a long list instead of writing a plan."""
    lines = feedback.splitlines()
    errors = list(dict.fromkeys(line for line in lines if line.startswith("- ")))
    waiting, selected = set(errors[:_MAX_ERRORS]), list[str]()
    for line in lines:
        if not line.startswith("- ") or line in waiting:
            selected.append(line)
            waiting.discard(line)
    return "\n".join(
        [*selected, f"- and {len(errors) - _MAX_ERRORS} more errors"] if len(errors) > _MAX_ERRORS else selected
    )


class RememberedTurn(NamedTuple):
    """A turn of a conversation: the evaluated plan, and the critique before it."""

    plan: PromptPlan
    critique: str = ""


def format_memory(turns: Sequence[RememberedTurn], max_tokens: int | None, *, has_feedback: bool = True) -> list[str]:
    """Returns the turns as text, oldest first. Turns beyond the budget are summarized in one line each.

    Args:
        turns: All turns but the last one, which the prompt shows in full.
        max_tokens: Budget of the full texts; None is unlimited.
        has_feedback: Whether the text contains the feedback.
    """
    remaining = float("inf") if max_tokens is None else float(max_tokens * CHARS_PER_TOKEN)
    texts = list[str]()
    for number, turn in reversed(list(enumerate(turns, 1))):
        feedback = f"\n{shorten_feedback(turn.plan.feedback)}" if has_feedback else ""
        text = f"Turn {number}, score {turn.plan.score or 0.0:.4g}:\n{turn.plan.plan}{feedback}"
        remaining -= len(text)
        texts.append(text if remaining >= 0 else _summarize(number, turn, has_feedback=has_feedback))
    return texts[::-1]


def continue_dialogue(prompt: str, exchanges: Sequence[tuple[str, str]]) -> str:
    """Returns a prompt with the responses to it and the requests or tool outputs after them.

    Old exchanges are shortened, so that the prompt does not grow without limit.
    """
    if not exchanges:
        return prompt
    messages, remaining = list[base.Message](), _MAX_EXCHANGE_CHARS
    for response, request in reversed(exchanges):
        remaining -= len(response) + len(request)
        max_chars = len(request) if remaining > 0 else _MAX_OLD_CHARS
        messages += [
            ("user", request[:max_chars]),
            ("assistant", response if remaining > 0 else response[:_MAX_OLD_CHARS]),
        ]
    return llm.ChatPrompt(*llm.get_messages(prompt), *reversed(messages))


def _summarize(number: int, turn: RememberedTurn, *, has_feedback: bool) -> str:
    first_error = turn.plan.feedback.partition("\n")[0].removeprefix("- ") if has_feedback else ""
    return f"Turn {number}, score {turn.plan.score or 0.0:.4g}. {first_error}".strip()


def find_open_points(turns: Sequence[RememberedTurn]) -> list[str]:
    """Returns the critic's points since the best score last rose. A better plan answers the points before it."""
    best = max((turn.plan.score or 0.0 for turn in turns), default=0.0)
    first = next((index for index, turn in enumerate(turns) if turn.plan.score == best), 0)
    lines = (line.strip() for turn in turns[first + 1 :] for line in turn.critique.splitlines())
    return list(dict.fromkeys(line for line in lines if line.startswith("-")))[-_MAX_POINTS:]


def extract_claim(response: str) -> str:
    """Returns why a response says that its plan is optimal; empty if it does not."""
    matches = _CLAIM.findall(response)
    return str(matches[-1]).strip()[:_MAX_CLAIM_CHARS] if matches else ""


def is_agreement(response: str) -> bool:
    """Returns whether a critic agrees with a claim: the last such word decides."""
    words = _AGREEMENT.findall(response)
    return bool(words) and words[-1] == "AGREE"


class CountingLLM:
    """LLM that adds up the usage of one turn."""

    def __init__(self, model: llm.LLM) -> None:
        self._model, self.cost, self.num_chars = model, evaluation.ZERO_COST, 0

    def __call__(self, prompt: str) -> llm.Response:
        response = self._model(prompt)
        self.cost += replace(response.cost, calls=1)
        self.num_chars += len(prompt) + len(response.text)
        return response

    @property
    def tokens(self) -> int:
        """Tokens of the calls, estimated if the LLM does not report them."""
        return self.cost.tokens_in + self.cost.tokens_out or self.num_chars // CHARS_PER_TOKEN

    def to_data(self) -> dict[str, JSON]:
        return {"calls": self.cost.calls, "tokens": self.tokens, "usd": self.cost.usd}


def shorten_results(results: Sequence[actions.Result]) -> list[actions.Result]:
    """Returns the results of the last tools with shortened outputs, for a candidate's metadata."""
    return [replace(result, output=result.output[:_MAX_TOOL_CHARS]) for result in results[-_MAX_TOOLS:]]
