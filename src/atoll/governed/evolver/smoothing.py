"""The exponential moving average of what was measured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from atoll import errors
from atoll.governed.evolver.proposer import Suggestion, select_evidence, compute_confidence
from atoll.governed.feedback.record import Feedback


@dataclass(frozen=True, slots=True)
class EMAProposer:
    """Suggests where a metric has been lately: `value += alpha * confidence * (measured - value)`.

    Attributes:
        alpha: How fast it follows, above 0 up to 1.
        metric: Which; empty takes all evidence.
        start: Returns the value to start from, such as the parameter's own; without it, the first measurement.
    """

    alpha: float = 0.3
    metric: str = ""
    get_initial_value: Callable[[str], float] | None = None

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 1:
            raise errors.SetupError(f"alpha={self.alpha}: give a number above 0 up to 1.")

    def __call__(self, key: str, evidence: Sequence[Feedback]) -> Suggestion:
        records = select_evidence(evidence, self.metric)
        value = records[0].value if self.get_initial_value is None else self.get_initial_value(key)
        for each in records:
            value += self.alpha * each.confidence * (each.value - value)
        return Suggestion(value, compute_confidence(sum(record.confidence for record in records)))
