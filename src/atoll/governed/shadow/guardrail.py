"""What must not become worse."""

from dataclasses import dataclass

from atoll import errors
from atoll.governed.statistics import Interval

FITNESS = "fitness"  # the name of the score itself, among the dimensions


@dataclass(frozen=True, slots=True)
class Guardrail:
    """A metric that a candidate may worsen by less than a margin (non-inferiority).

    Attributes:
        metric: A dimension of the breakdown, or `fitness`.
        margin: How much worse is still no harm, in units of the metric.
        lower_is_better: For costs, latencies, error rates.
    """

    metric: str
    margin: float = 0.0
    lower_is_better: bool = False

    def __post_init__(self) -> None:
        if not self.metric or not self.margin >= 0:
            raise errors.SetupError(f"A guardrail needs a metric and a margin of 0 or more, not {self}.")

    def to_gain(self, interval: Interval) -> Interval:
        """Returns the interval of the difference such that above 0 is better."""
        return Interval(-interval.high, -interval.low) if self.lower_is_better else interval

    def is_breached(self, difference: Interval) -> bool:
        """Says whether the candidate is worse by more than the margin, for sure."""
        return self.to_gain(difference).high < -self.margin

    def is_satisfied(self, difference: Interval) -> bool:
        """Says whether the candidate is not worse by more than the margin, for sure."""
        return self.to_gain(difference).low >= -self.margin
