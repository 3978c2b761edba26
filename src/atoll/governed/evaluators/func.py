"""A function as an evaluator."""

from collections.abc import Callable, Mapping
from threading import Event
from typing import Any

from atoll import errors, evaluation
from atoll.candidate import Candidate
from atoll.governed import cancellation


class FuncEvaluator:
    """Scores by a function that returns a number, a number with its breakdown, or an `Evaluation`.

    What the function raises is the failure of its candidate.

    Args:
        fn: Compulsory.
        stop: Looked at before each call.
        is_concurrency_safe: Several threads may call it at once.
    """

    def __init__(
        self, fn: Callable[[Candidate], Any], *, stop: Event | None = None, is_concurrency_safe: bool = False
    ) -> None:
        if not callable(fn):
            raise errors.SetupError(f"A FuncEvaluator needs a function, not {fn!r}.")
        self._fn, self._stop, self.is_concurrency_safe = fn, stop, is_concurrency_safe

    def score(self, candidate: Candidate) -> evaluation.Evaluation:
        """Returns what the function found.

        Raises:
            Cancelled: It was told to stop.
        """
        cancellation.check_cancelled(self._stop)
        result = errors.capture(lambda: self._fn(candidate), reraise=(cancellation.Cancelled, errors.SetupError))
        if isinstance(result, errors.CaughtException):
            return evaluation.failed(str(result))
        match result:
            case (score_value, Mapping() as breakdown):
                return evaluation.validate(evaluation.Evaluation(score_value, metrics=dict(breakdown)))
            case (score_value, None):
                return evaluation.validate(score_value)
        return evaluation.validate(result)
