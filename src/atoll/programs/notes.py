"""What a run of texts remembers: a digest of what helped and what did not, and how often the evaluator was called."""

from collections import deque
from collections.abc import Mapping
from random import Random
from typing import Any

from atoll import function
from atoll.candidate import JSON, digest
from atoll.programs.instances import CALLS

_LONGEST = 160  # characters of a note in the advice, which is stored with every step


class Notes:
    """The learner of texts.

    Args:
        founding: Calls of the evaluator that judging the start took.
        most: Notes of each kind that the next step is told.

    Attributes:
        calls: Calls of the evaluator by all steps that were applied: what was judged twice counts once.
    """

    def __init__(self, founding: int = 1, most: int = 3) -> None:
        self.calls = founding
        self._worked: deque[str] = deque(maxlen=most)
        self._failed: deque[str] = deque(maxlen=most)
        self._tried: set[tuple[str, str]] = set()

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        """Says what helped and what did not, of late."""
        told = {"worked": list(self._worked), "failed": list(self._failed)}
        return {name: notes for name, notes in told.items() if notes}

    def learn(self, outcome: function.Outcome) -> None:
        """Counts what the step called, and notes what its child was to do and whether it did."""
        for fn, decision in outcome.children:
            if fn.candidate is None:
                continue
            meta: Mapping[str, Any] = fn.candidate.meta
            self._count(outcome, fn, meta)
            if note := str(meta.get("note") or ""):
                notes = self._worked if decision.verdict == "accept" and _gained(outcome, fn) else self._failed
                if note[:_LONGEST] not in notes:
                    notes.append(note[:_LONGEST])

    def _count(self, outcome: function.Outcome, fn: function.Function, meta: Mapping[str, Any]) -> None:
        content = fn.candidate.content if fn.candidate else ""
        parent, tried = str(outcome.parents[-1].skeleton()), meta.get("tried", ())
        self.calls += sum(len(batch) for batch in tried if self._is_new(parent, str(batch)))
        if tried and "before" in meta and self._is_new(content, str(tried[-1])):
            self.calls += len(tried[-1])
        if fn.evaluation is not None and self._is_new(content, "validation"):
            self.calls += int(fn.evaluation.metrics.get(CALLS, 1))

    def _is_new(self, text: str, part: str) -> bool:
        size = len(self._tried)
        self._tried.add((digest(text), part))
        return len(self._tried) > size


def _gained(outcome: function.Outcome, fn: function.Function) -> bool:
    before = max((function.rank_of(each) for each in outcome.parents if each.evaluation), default=float("-inf"))
    return fn.evaluation is not None and function.rank_of(fn) > before
