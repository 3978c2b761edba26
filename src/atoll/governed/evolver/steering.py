"""A controller that steers a parameter until a metric is where it should be."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

from atoll import errors
from atoll.governed.evolver.proposer import Suggestion, select_evidence, compute_confidence
from atoll.governed.feedback.record import Feedback


@dataclass(frozen=True, slots=True)
class PIDProposer:
    """Suggests `value + kp * error + ki * integral + kd * slope`, the error being target minus measured.

    The sum of errors is held where the suggestion would leave its bounds, so that it does not wind up.

    Attributes:
        read: Returns the parameter's present value.
        target: Where the metric should be.
        metric: Which; empty takes all evidence.
        kp, ki, kd: Gains; negative ones where a larger parameter makes the metric smaller.
        low, high: Bounds of the parameter.
        unit: The time in which integral and slope count.
    """

    read_value: Callable[[str], float]
    target: float
    metric: str = ""
    kp: float = 0.5
    ki: float = 0.0
    kd: float = 0.0
    low: float = float("-inf")
    high: float = float("inf")
    unit: timedelta = timedelta(hours=1)

    def __post_init__(self) -> None:
        if self.low > self.high or self.unit <= timedelta(0):
            raise errors.SetupError(f"PID needs low <= high and a unit above 0, not {self.low}, {self.high}.")

    def __call__(self, key: str, evidence: Sequence[Feedback]) -> Suggestion:
        records, value = select_evidence(evidence, self.metric), self.read_value(key)
        integral = slope = 0.0
        suggested = self._clamp(value + self.kp * (self.target - records[0].value))
        for previous, current in pairwise(records):
            error, previous_error = self.target - current.value, self.target - previous.value
            elapsed = (current.timestamp - previous.timestamp) / self.unit
            slope = (error - previous_error) / elapsed if elapsed else slope
            new_integral = integral + error * elapsed
            unclamped = value + self.kp * error + self.ki * new_integral + self.kd * slope
            suggested = self._clamp(unclamped)
            if suggested == unclamped:
                integral = new_integral
        return Suggestion(suggested, compute_confidence(sum(record.confidence for record in records)))

    def _clamp(self, value: float) -> float:
        return min(max(value, self.low), self.high)
