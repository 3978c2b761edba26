"""Learners that remember attempts and notes for prompts."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from atoll import function, gate
from atoll.candidate import JSON

_MAX_CHANGE_CHARS, _MAX_REASON_CHARS = 300, 300


class AttemptHistory:
    """A learner that adds the latest attempts and the latest failures to the advice.

    Failures have their own list, so that many successes do not hide them. Of equal reasons only the last one is kept.

    Args:
        num_attempts: Number of attempts; the number of failures is one less.
    """

    def __init__(self, num_attempts: int = 3) -> None:
        self._recent = deque[Mapping[str, JSON]](maxlen=max(1, num_attempts))
        self._failures = deque[Mapping[str, JSON]](maxlen=max(1, num_attempts - 1))
        self._is_disabled = num_attempts == 0

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        older_failures = [failure for failure in reversed(self._failures) if failure not in self._recent]
        attempts = [*reversed(self._recent), *older_failures]
        return {"attempts": attempts} if attempts and not self._is_disabled else {}

    def learn(self, result: function.IterationResult) -> None:
        if result.failure is not None:
            self._add({"outcome": "failed", "reason": _truncate(result.failure, _MAX_REASON_CHARS)})
        for fn, decision in result.children:
            self._add(_describe_attempt(fn, decision))

    def _add(self, attempt: Mapping[str, JSON]) -> None:
        duplicates = [failure for failure in self._failures if failure.get("reason") == attempt.get("reason")]
        if attempt["outcome"] in ("failed", "refused"):
            for duplicate in duplicates:
                self._failures.remove(duplicate)
            self._failures.append(attempt)
        self._recent.append(attempt)


def _describe_attempt(fn: function.Function, decision: gate.Decision) -> Mapping[str, JSON]:
    """Returns a child's change and its outcome as plain data."""
    meta: Mapping[str, Any] = fn.candidate.meta if fn.candidate else {}
    score = fn.evaluation.score if fn.evaluation else None
    parent_score = meta.get("from_score")
    attempt: dict[str, JSON] = {"outcome": _classify_outcome(score, parent_score, fn, decision)}
    attempt |= {"change": _truncate(str(meta["change"]), _MAX_CHANGE_CHARS)} if "change" in meta else {}
    attempt |= {"score": score} if score is not None else {"reason": _truncate(decision.reason, _MAX_REASON_CHARS)}
    return attempt | ({"from_score": parent_score} if parent_score is not None else {})


def _classify_outcome(
    score: float | None, parent_score: float | None, fn: function.Function, decision: gate.Decision
) -> str:
    if score is None:
        return "refused" if fn.evaluation is None else "failed"
    if decision.verdict == "reject":
        return "rejected"
    if parent_score is None or score == parent_score:
        return "no change" if parent_score is not None else "scored"
    return "improved" if score > parent_score else "declined"


def _truncate(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 4]} ..."


@dataclass(frozen=True, slots=True)
class CombinedLearner:
    """Merges the advice of several learners; for equal names the last one wins."""

    learners: Sequence[function.Learner]

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        advice: dict[str, JSON] = {}
        for learner in self.learners:
            advice |= learner.advise(rng)
        return advice

    def learn(self, result: function.IterationResult) -> None:
        for learner in self.learners:
            learner.learn(result)
