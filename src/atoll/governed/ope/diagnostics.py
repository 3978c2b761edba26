"""Whether a log can say anything about a policy."""

from typing import NamedTuple

from atoll.governed.ope.logged import LoggedData


class Diagnostics(NamedTuple):
    """How far the target policy is from the logging policy.

    Attributes:
        num_decisions: Rows of the log.
        effective_size: So many decisions of the target policy itself would say as much (Kish).
        max_weight: The largest say of one decision; 1 is that of a decision on the target's own log.
        overlap: The mean weight, about 1. Well below it: the target does what was never tried.
    """

    num_decisions: int
    effective_size: float
    max_weight: float
    overlap: float


def diagnose(logged: LoggedData) -> Diagnostics:
    weights = logged.weights
    sum_squares = float((weights**2).sum())
    effective_size = float(weights.sum()) ** 2 / sum_squares if sum_squares else 0.0
    return Diagnostics(len(weights), effective_size, float(weights.max()), float(weights.mean()))
