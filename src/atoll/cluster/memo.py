"""Evaluations by content: nothing is judged twice."""

import math
from collections.abc import Callable
from threading import Condition

from atoll.evaluation import Evaluation


class Memo:
    """Remembers what was found out about a content; of two that ask at once the second waits for the first."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[float, Evaluation]] = {}
        self._judging: set[str] = set()
        self._changed = Condition()

    def put(self, key: str, step: int, found: Evaluation) -> None:
        """Stores an evaluation under the earliest step that has it."""
        with self._changed:
            self._found[key] = (min(step, self._found.get(key, (math.inf,))[0]), found)

    def known(self, key: str, horizon: float) -> Evaluation | None:
        """Returns what a step that sees the steps up to `horizon` may count as known, so that it costs nothing."""
        with self._changed:
            step, found = self._found.get(key, (math.inf, None))
        return found if step <= horizon else None

    def share(self, key: str, judge: Callable[[], Evaluation]) -> Evaluation:
        """Returns the evaluation at hand, or judges while others who ask for the same wait."""
        with self._changed:
            self._changed.wait_for(lambda: key not in self._judging)
            if key in self._found:
                return self._found[key][1]
            self._judging.add(key)
        try:
            found = judge()
            with self._changed:
                self._found.setdefault(key, (math.inf, found))  # no step has it before it is stored
            return found
        finally:
            with self._changed:
                self._judging.discard(key)
                self._changed.notify_all()
