"""What was tried last, with what came of it: the memory that prompts draw on."""

from collections import deque
from collections.abc import Mapping
from random import Random
from typing import Any

from atoll import function, gate
from atoll.candidate import JSON

_LONGEST_CHANGE, _LONGEST_REASON = 300, 300


class Attempts:
    """A learner that tells each step of the latest attempts and, apart from them, of the latest failures.

    Failures have a place of their own, so that a run of successes does not make the model forget what does not work;
    of equal reasons the last one is told.

    Args:
        num_attempts: How many attempts are told, and as many failures at most, less one.
    """

    def __init__(self, num_attempts: int = 3) -> None:
        self._recent = deque[Mapping[str, JSON]](maxlen=max(1, num_attempts))
        self._failed = deque[Mapping[str, JSON]](maxlen=max(1, num_attempts - 1))
        self._is_off = num_attempts == 0

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        told = [*reversed(self._recent), *(each for each in reversed(self._failed) if each not in self._recent)]
        return {"attempts": told} if told and not self._is_off else {}

    def learn(self, outcome: function.Outcome) -> None:
        if outcome.failure is not None:
            self._take({"outcome": "failed", "reason": _short(outcome.failure, _LONGEST_REASON)})
        for fn, decision in outcome.children:
            self._take(_attempt(fn, decision))

    def _take(self, attempt: Mapping[str, JSON]) -> None:
        same = [each for each in self._failed if each.get("reason") == attempt.get("reason")]
        if attempt["outcome"] in ("failed", "refused"):
            for each in same:
                self._failed.remove(each)
            self._failed.append(attempt)
        self._recent.append(attempt)


def _attempt(fn: function.Function, decision: gate.Decision) -> Mapping[str, JSON]:
    """Returns what a child changed and what came of it, as plain data."""
    meta: Mapping[str, Any] = fn.candidate.meta if fn.candidate else {}
    score = fn.evaluation.score if fn.evaluation else None
    before = meta.get("from_score")
    told: dict[str, JSON] = {"outcome": _outcome(score, before, fn, decision)}
    told |= {"change": _short(str(meta["change"]), _LONGEST_CHANGE)} if "change" in meta else {}
    told |= {"score": score} if score is not None else {"reason": _short(decision.reason, _LONGEST_REASON)}
    return told | ({"from_score": before} if before is not None else {})


def _outcome(score: float | None, before: float | None, fn: function.Function, decision: gate.Decision) -> str:
    if score is None:
        return "refused" if fn.evaluation is None else "failed"
    if decision.verdict == "reject":
        return "rejected"
    if before is None or score == before:
        return "no change" if before is not None else "scored"
    return "improved" if score > before else "declined"


def _short(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 4]} ..."
