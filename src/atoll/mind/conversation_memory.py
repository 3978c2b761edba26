"""Memory of a conversation: earlier turns within a token budget, open points, claims of optimality, usage."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from atoll import evaluation, llm
from atoll.candidate import JSON
from atoll.llm import base
from atoll.mind import actions
from atoll.mind.prompts import PromptPlan

CHARS_PER_TOKEN = 4
_CLAIM = re.compile(r"<optimal>(.*?)(?:</optimal>|\Z)", re.DOTALL)
_AGREEMENT = re.compile(r"\b(AGREE|DISAGREE)\b")
_MAX_TOOL_CHARS, _MAX_TOOLS = 400, 30  # tools in a candidate's metadata, and characters of their outputs
_MAX_POINTS = 8
_MAX_EXCHANGE_CHARS, _MAX_OLD_CHARS = 24_000, 300  # of tool outputs in a prompt, and of an old one
_MAX_CLAIM_CHARS = 2000


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
        feedback = f"\n{turn.plan.feedback}" if has_feedback else ""
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
