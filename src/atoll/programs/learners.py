"""Learners that remember attempts, changes that helped, errors and notes, for the prompts of a run."""

import math
import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from atoll import control, function, gate
from atoll.candidate import EMPTY, JSON, content_hash

_MAX_CHANGE_CHARS, _MAX_REASON_CHARS = 300, 300
_MAX_REPEATS = 3  # iterations in a row without a new candidate, each with up to two LLM calls
_MAX_COPIES = 8  # iterations in a row that repeat the parent in different answers, as small LLMs sometimes do
_REPEAT_WORDS = ("is not new", "the same answer", "the same as", "equals", "unchanged")  # in the reason of a rejection
_MAX_UNUSABLE = 25  # iterations in a row without a usable response


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


MAX_ERROR_CHARS = 300
_MAX_ATTEMPTS, _MAX_STORED_ATTEMPTS, _MAX_GAINS = 6, 12, 3
_MAX_LATEST = 25  # attempts, for notes on the run
_MAX_IDEA_CHARS, _MAX_WHY_CHARS, _MAX_ERROR_KEY_CHARS, _MAX_CHANGE_TEXT = 160, 200, 120, 400
_PROGRAM_FRAME = re.compile(r'File "[^"\n]*program\.\w+", line (\d+)[^\n]*\n[ \t]*(?![ \t]|File )([^\n]*)')
_MAX_READ_CHARS = 2000  # of an error
_NOISE = 1e-9  # relative difference of scores that is a rounding error
_ERROR_PLACE = re.compile(r" \((?:[\w.-]+, )?line \d+.*\)$")  # the same error in another line counts as the same


class AttemptMemory:
    """Attempts by parent, the largest gains, and the most frequent errors."""

    def __init__(self) -> None:
        self._attempts: dict[str, deque[dict[str, JSON]]] = {}
        self._latest = deque[dict[str, JSON]](maxlen=_MAX_LATEST)
        self._gains = list[dict[str, JSON]]()
        self._errors = Counter[str]()

    def add_unusable(self, parent_id: str, failure: str) -> None:
        """Adds a response without a program; an LLM that did not respond teaches nothing."""
        if "LLMError" in failure:
            return
        reason = failure.removeprefix("the mutator raised ").removeprefix("UnusableResponse: ")
        self._add(parent_id, {"outcome": "unusable", "reason": " ".join(reason.split())[:MAX_ERROR_CHARS]})

    def add_child(
        self,
        parent: function.Function,
        fn: function.Function,
        error: str,
        *,
        best_gain: float | None = None,
        is_parent_valid: bool = True,
    ) -> None:
        """Adds an evaluated or rejected child.

        Args:
            parent: The program that was changed.
            fn: The child.
            error: Reason for its failure; empty if it has a valid score.
            best_gain: Gain of a new best program over the one before; None if it is not the best.
            is_parent_valid: Whether the parent succeeded. The score of a failed one is compared with none.
        """
        meta: Mapping[str, Any] = fn.candidate.meta if fn.candidate else {}
        score, parent_score = (program.score() if program.evaluation else None for program in (fn, parent))
        attempt: dict[str, JSON] = {"id": fn.candidate.id if fn.candidate else ""}
        attempt["idea"] = str(meta.get("idea") or "")[:_MAX_IDEA_CHARS]
        attempt |= {"why": str(meta["why"])[:_MAX_WHY_CHARS]} if meta.get("why") else {}
        attempt |= {"change": str(meta.get("change") or "")[:_MAX_CHANGE_TEXT]} if not attempt["idea"] else {}
        if error:
            summary = summarize_error(error)
            reason = summary[:MAX_ERROR_CHARS]
            attempt |= {"outcome": "failed" if fn.evaluation else "rejected", "reason": reason}
            self._errors[_ERROR_PLACE.sub("", summary[:_MAX_READ_CHARS])[:_MAX_ERROR_KEY_CHARS]] += bool(fn.evaluation)
        else:
            difference = _subtract(score, parent_score) if is_parent_valid else None
            attempt |= {"outcome": _classify(difference), "score": score, "difference": difference}
        if best_gain and best_gain > _NOISE * abs(score or 0.0) and (attempt["idea"] or attempt.get("change")):
            self._gains.append({**attempt, "difference": best_gain})
            self._gains = sorted(self._gains, key=lambda gain: -_to_number(gain["difference"]))[:_MAX_GAINS]
        self._add(str(parent.candidate.id if parent.candidate else ""), attempt)

    def _add(self, parent_id: str, attempt: dict[str, JSON]) -> None:
        """Adds an attempt; of equal failures only the last one stays, also if their lines differ."""
        attempts = self._attempts.setdefault(parent_id, deque(maxlen=_MAX_STORED_ATTEMPTS))
        reason = _ERROR_PLACE.sub("", str(attempt.get("reason") or ""))
        for old in [old for old in attempts if reason and _ERROR_PLACE.sub("", str(old.get("reason") or "")) == reason]:
            attempts.remove(old)
        attempts.append(attempt)
        self._latest.append(attempt)

    def list_latest(self) -> Sequence[JSON]:
        """Returns the latest attempts of all programs, oldest first."""
        return list(self._latest)

    def choose_attempts(self, parent_id: str) -> Sequence[JSON]:
        """Returns the best attempt from a program, the last three and other failures, newest first."""
        attempts = list(self._attempts.get(parent_id, ()))
        scored = [attempt for attempt in attempts if attempt.get("score") is not None]
        best = max(scored, key=lambda attempt: _to_number(attempt["score"]), default=None)
        chosen = [old for old in attempts[:-3] if old is best or old["outcome"] == "failed"] + attempts[-3:]
        return chosen[::-1][:_MAX_ATTEMPTS]

    def list_notes(self) -> Sequence[JSON]:
        """Returns the changes that helped most, and errors that occurred more than once."""
        notes: list[JSON] = [
            {"note": "helped", "idea": gain["idea"] or gain.get("change", ""), "difference": gain["difference"]}
            for gain in self._gains
        ]
        for reason, count in self._errors.most_common(3):
            notes += [{"note": "failed", "reason": reason, "count": count}] if count > 1 else []
        return notes


def summarize_error(error: str) -> str:
    """Returns the last line of an error, and the line of the program that raised it."""
    lines = [line.strip() for line in error.splitlines() if line.strip().strip("^~ ")]
    if len(lines) < 2:
        return " ".join(error.split())
    frames = _PROGRAM_FRAME.findall(error)
    place = f" (line {frames[-1][0]}: {frames[-1][1].strip()})" if frames else ""
    return " ".join(f"{lines[-1]}{place}".split())


def _subtract(score: float | None, other: float | None) -> float | None:
    """Returns a difference of scores; 0 if it is only a rounding error."""
    if score is None or other is None:
        return None
    return 0.0 if math.isclose(score, other, rel_tol=_NOISE) else score - other


def _classify(difference: float | None) -> str:
    if difference is None:
        return "scored"
    return "better" if difference > 0 else "worse" if difference < 0 else "equal"


def _to_number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else -math.inf


class RepeatWatch:
    """Stops a run whose LLM returns known candidates, or nothing usable, again and again."""

    def __init__(self) -> None:
        self._repeats = self._copies = self._unusable = self._calls = 0
        self._reason, self._known = "", set[str]()

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        return EMPTY

    def learn(self, result: function.IterationResult) -> None:
        """Counts iterations with LLM calls that gave no candidate to evaluate."""
        if not result.cost.calls or result.advice.get("operator") == "notes":
            return
        measured = [
            content_hash(str(fn.skeleton()))
            for fn, _ in result.children
            if fn.evaluation is not None or (fn.candidate is not None and "after" in fn.candidate.meta)
        ]
        if set(measured) - self._known:
            self._repeats = self._copies = self._unusable = self._calls = 0
            self._known |= set(measured)
            return
        self._calls += result.cost.calls
        reason = result.failure or next((decision.reason for _, decision in result.children), "no candidate")
        self._reason = reason.removeprefix("the mutator raised ").removeprefix("UnusableResponse: ").rstrip(".")
        is_repeat = bool(measured) or any(word in reason for word in _REPEAT_WORDS)
        self._repeats = self._repeats + 1 if is_repeat else 0
        self._copies = self._copies + 1 if is_repeat or "repeats" in reason else 0
        self._unusable += 1

    def find_reason(self, progress: control.RunProgress) -> str | None:
        """Stop rule: returns a reason after too many such iterations in a row."""
        if self._repeats >= _MAX_REPEATS or self._copies >= _MAX_COPIES:
            return f"the LLM gave nothing new in its last {self._calls} calls: {self._reason}. Raise its temperature"
        if self._unusable >= _MAX_UNUSABLE:
            return f"the LLM gave nothing usable in its last {self._calls} calls: {self._reason}"
        return None
