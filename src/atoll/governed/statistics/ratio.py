"""Whether two groups have the sizes that they were meant to have."""

import math
from typing import NamedTuple

from scipy import special

from atoll import errors

STRICT_ALPHA = 0.001  # a check that runs all the time must hardly ever cry wolf


class RatioCheck(NamedTuple):
    """Counts beside their plan.

    Attributes:
        share: What the second group makes of both.
        p_value: Valid at any moment, however often it is asked.
        is_off: The split is broken: what the groups say of each other is not to be trusted.
    """

    share: float
    expected: float
    p_value: float
    is_off: bool


def check_ratio(num_baseline: int, num_candidate: int, expected: float, *, alpha: float = STRICT_ALPHA) -> RatioCheck:
    """Compares the share of the second group with the planned one.

    The evidence is the likelihood ratio of a share about which nothing is known (uniform) against the planned one: a
    martingale where the plan holds, so that looking often does no harm (Lindon and Malek, 2020).

    Raises:
        SetupError: The planned share is not between 0 and 1.
    """
    if not 0 < expected < 1:
        raise errors.SetupError(f"A planned share of {expected} leaves a group empty: there is nothing to compare.")
    total = num_baseline + num_candidate
    marginal = float(special.betaln(num_candidate + 1, num_baseline + 1))
    planned = num_candidate * math.log(expected) + num_baseline * math.log1p(-expected)
    p_value = math.exp(min(0.0, planned - marginal))
    return RatioCheck(num_candidate / total if total else 0.0, expected, p_value, p_value < alpha)
