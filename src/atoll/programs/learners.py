"""Learners that remember attempts and notes for prompts."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from atoll import function, gate
from atoll.candidate import JSON, content_hash
from atoll.programs.gepa.dataset_evaluator import CALLS_METRIC

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


_MAX_NOTE_CHARS = 160  # of a note in the advice, which is stored with every iteration


class TextNotes:
    """A learner that notes which changes of a text helped.

    Args:
        initial_calls: Evaluator calls for the initial text.
        max_notes: Notes of each kind in the advice.

    Attributes:
        calls: Evaluator calls of all applied iterations; repeated evaluations count once.
    """

    def __init__(self, initial_calls: int = 1, max_notes: int = 3) -> None:
        self.calls = initial_calls
        self._worked: deque[str] = deque(maxlen=max_notes)
        self._failed: deque[str] = deque(maxlen=max_notes)
        self._evaluated: set[tuple[str, str]] = set()

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        """Returns the latest notes on changes that helped and that did not."""
        notes_by_kind = {"worked": list(self._worked), "failed": list(self._failed)}
        return {name: notes for name, notes in notes_by_kind.items() if notes}

    def learn(self, result: function.IterationResult) -> None:
        """Counts the evaluator calls, and notes each child's change and whether it helped."""
        for fn, decision in result.children:
            if fn.candidate is None:
                continue
            meta: Mapping[str, Any] = fn.candidate.meta
            self._count_calls(result, fn, meta)
            if note := str(meta.get("note") or ""):
                notes = self._worked if decision.verdict == "accept" and _has_improved(result, fn) else self._failed
                if note[:_MAX_NOTE_CHARS] not in notes:
                    notes.append(note[:_MAX_NOTE_CHARS])

    def _count_calls(self, result: function.IterationResult, fn: function.Function, meta: Mapping[str, Any]) -> None:
        content = fn.candidate.content if fn.candidate else ""
        parent, batches = str(result.parents[-1].skeleton()), meta.get("tried", ())
        self.calls += sum(len(batch) for batch in batches if self._is_new(parent, str(batch)))
        if batches and "before" in meta and self._is_new(content, str(batches[-1])):
            self.calls += len(batches[-1])
        if fn.evaluation is not None and self._is_new(content, "validation"):
            self.calls += int(fn.evaluation.metrics.get(CALLS_METRIC, 1))

    def _is_new(self, text: str, part: str) -> bool:
        size = len(self._evaluated)
        self._evaluated.add((content_hash(text), part))
        return len(self._evaluated) > size


def _has_improved(result: function.IterationResult, fn: function.Function) -> bool:
    fitnesses = (function.get_fitness(parent) for parent in result.parents if parent.evaluation)
    return fn.evaluation is not None and function.get_fitness(fn) > max(fitnesses, default=float("-inf"))


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
