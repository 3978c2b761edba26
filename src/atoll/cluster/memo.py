"""Evaluations by content: nothing is judged twice."""

import math
from collections.abc import Callable
from threading import Lock

from atoll.evaluation import Evaluation


class Memo:
    """Remembers what was found out about a content; of two that ask at once the second waits for the first."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[float, Evaluation]] = {}
        self._judging: dict[str, Lock] = {}
        self._putting = Lock()

    def put(self, key: str, step: int, found: Evaluation) -> None:
        """Stores an evaluation under the earliest step that has it."""
        with self._putting:
            self._found[key] = (min(step, self._found.get(key, (math.inf,))[0]), found)

    def known(self, key: str, horizon: float) -> Evaluation | None:
        """Returns what a step that sees the steps up to `horizon` may count as known, so that it costs nothing."""
        step, found = self._found.get(key, (math.inf, None))
        return found if step <= horizon else None

    def share(self, key: str, judge: Callable[[], Evaluation]) -> Evaluation:
        """Returns the evaluation at hand, or judges while others who ask for the same wait."""
        with self._judging.setdefault(key, Lock()):  # one lock a content, gone once it is judged
            if key not in self._found:
                self._found.setdefault(key, (math.inf, judge()))  # no step has it before it is stored
            self._judging.pop(key, None)
            return self._found[key][1]
