"""What a run of texts remembers: a digest of what helped and what did not, and how often the evaluator was called."""

from collections import deque
from collections.abc import Mapping
from random import Random
from typing import Any

from atoll import function
from atoll.candidate import JSON, content_hash
from atoll.programs.instances import CALLS_METRIC

_MAX_NOTE_CHARS = 160  # characters of a note in the advice, which is stored with every step


class TextNotes:
    """The learner of texts.

    Args:
        founding: Calls of the evaluator that judging the start took.
        most: Notes of each kind that the next step is told.

    Attributes:
        calls: Calls of the evaluator by all steps that were applied: what was judged twice counts once.
    """

    def __init__(self, initial_calls: int = 1, max_notes: int = 3) -> None:
        self.calls = initial_calls
        self._worked: deque[str] = deque(maxlen=max_notes)
        self._failed: deque[str] = deque(maxlen=max_notes)
        self._evaluated: set[tuple[str, str]] = set()

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        """Says what helped and what did not, of late."""
        notes_by_kind = {"worked": list(self._worked), "failed": list(self._failed)}
        return {name: notes for name, notes in notes_by_kind.items() if notes}

    def learn(self, result: function.IterationResult) -> None:
        """Counts what the step called, and notes what its child was to do and whether it did."""
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
    parent_fitness = max((function.get_fitness(parent) for parent in result.parents if parent.evaluation), default=float("-inf"))
    return fn.evaluation is not None and function.get_fitness(fn) > parent_fitness
