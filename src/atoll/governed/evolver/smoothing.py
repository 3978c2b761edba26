"""The exponential moving average of what was measured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from atoll import errors
from atoll.governed.evolver.proposer import Suggestion, in_order, saturating
from atoll.governed.feedback.record import Feedback


@dataclass(frozen=True, slots=True)
class EMA:
    """Suggests where a metric has been lately: `value += alpha * confidence * (measured - value)`.

    Attributes:
        alpha: How fast it follows, above 0 up to 1.
        metric: Which; empty takes all evidence.
        start: Returns the value to start from, such as the parameter's own; without it, the first measurement.
    """

    alpha: float = 0.3
    metric: str = ""
    start: Callable[[str], float] | None = None

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 1:
            raise errors.SetupError(f"alpha={self.alpha}: give a number above 0 up to 1.")

    def __call__(self, key: str, evidence: Sequence[Feedback]) -> Suggestion:
        found = in_order(evidence, self.metric)
        value = found[0].value if self.start is None else self.start(key)
        for each in found:
            value += self.alpha * each.confidence * (each.value - value)
        return Suggestion(value, saturating(sum(each.confidence for each in found)))
