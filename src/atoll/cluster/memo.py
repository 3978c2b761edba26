"""Evaluations by content: nothing is judged twice."""

import math
from collections.abc import Callable
from threading import Lock

from atoll.evaluation import Evaluation


class EvaluationCache:
    """Remembers what was found out about a content; of two that ask at once the second waits for the first."""

    def __init__(self) -> None:
        self._evaluations: dict[str, tuple[float, Evaluation]] = {}
        self._locks: dict[str, Lock] = {}
        self._write_lock = Lock()

    def put(self, key: str, iteration: int, evaluation: Evaluation) -> None:
        """Stores an evaluation under the earliest step that has it."""
        with self._write_lock:
            self._evaluations[key] = (min(iteration, self._evaluations.get(key, (math.inf,))[0]), evaluation)

    def get(self, key: str, last_iteration: float) -> Evaluation | None:
        """Returns what a step that sees the steps up to `horizon` may count as known, so that it costs nothing."""
        iteration, evaluation = self._evaluations.get(key, (math.inf, None))
        return evaluation if iteration <= last_iteration else None

    def get_or_evaluate(self, key: str, evaluate: Callable[[], Evaluation]) -> Evaluation:
        """Returns the evaluation at hand, or judges while others who ask for the same wait."""
        with self._locks.setdefault(key, Lock()):  # one lock a content, gone once it is judged
            if key not in self._evaluations:
                self._evaluations.setdefault(key, (math.inf, evaluate()))  # no step has it before it is stored
            self._locks.pop(key, None)
            return self._evaluations[key][1]
