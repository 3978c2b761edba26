"""Memory of a conversation: earlier turns within a token budget, open points of the critic, claims of optimality."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from atoll.mind.prompts import PromptPlan

CHARS_PER_TOKEN = 4
_CLAIM = re.compile(r"<optimal>(.*?)(?:</optimal>|\Z)", re.DOTALL)
_AGREEMENT = re.compile(r"\b(AGREE|DISAGREE)\b")
_MAX_POINTS = 8
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
        text = f"Turn {number}, score {turn.plan.score:.4g}:\n{turn.plan.plan}{feedback}"
        remaining -= len(text)
        texts.append(text if remaining >= 0 else _summarize(number, turn, has_feedback=has_feedback))
    return texts[::-1]


def _summarize(number: int, turn: RememberedTurn, *, has_feedback: bool) -> str:
    first_error = turn.plan.feedback.partition("\n")[0].removeprefix("- ") if has_feedback else ""
    return f"Turn {number}, score {turn.plan.score:.4g}. {first_error}".strip()


def find_open_points(turns: Sequence[RememberedTurn]) -> list[str]:
    """Returns the critic's points since the best score last rose. A better plan answers the points before it."""
    best = max((turn.plan.score for turn in turns), default=0.0)
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
