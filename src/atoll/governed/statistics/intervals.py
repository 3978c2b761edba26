"""Intervals for a sample whose size was fixed before anybody looked.

Whoever looks at one of these again and again and stops when it excludes 0 is wrong nearly half the time
(`scripts/bench governed_statistics`); `sequence` is for that.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from atoll import errors
from atoll.governed.statistics.moments import Moments


class Interval(NamedTuple):
    """Where a mean lies, with its level of confidence behind it."""

    low: float
    high: float

    def excludes(self, value: float) -> bool:
        return not self.low <= value <= self.high


UNBOUNDED = Interval(-math.inf, math.inf)


def check_alpha(alpha: float) -> None:
    """Refuses what is no probability of error.

    Raises:
        SetupError: It is not between 0 and 1.
    """
    if not 0 < alpha < 1:
        raise errors.SetupError(f"alpha={alpha} is no probability of error: give one between 0 and 1, e.g. 0.05.")


def t_interval(moments: Moments, alpha: float = 0.05) -> Interval:
    """Returns Student's interval for the mean; everywhere with fewer than two values."""
    check_alpha(alpha)
    if moments.count < 2:
        return UNBOUNDED
    half_width = float(special.stdtrit(moments.count - 1, 1 - alpha / 2)) * moments.deviation / math.sqrt(moments.count)
    return Interval(moments.mean - half_width, moments.mean + half_width)


def bootstrap_interval(
    values: Sequence[float], alpha: float = 0.05, *, num_resamples: int = 1000, seed: int = 0
) -> Interval:
    """Returns the interval of percentiles of resampled means; the same values and seed give the same interval."""
    check_alpha(alpha)
    if len(values) < 2:
        return UNBOUNDED
    rng, sample = np.random.default_rng(seed), np.asarray(values, dtype=float)
    # One draw at a time: a thousand draws of a long sample at once would be gigabytes.
    means = [sample[rng.integers(0, len(sample), len(sample))].mean() for _ in range(num_resamples)]
    low, high = np.quantile(means, [alpha / 2, 1 - alpha / 2])
    return Interval(float(low), float(high))


def compute_sample_size(effect: float, *, alpha: float = 0.05, power: float = 0.8) -> int:
    """Returns how many pairs a test of fixed size needs to find an effect, given in standard deviations."""
    check_alpha(alpha)
    if not effect:
        raise errors.SetupError("No sample is large enough to find an effect of 0: give the least that matters.")
    z_sum = float(special.ndtri(1 - alpha / 2) + special.ndtri(power))
    return math.ceil((z_sum / effect) ** 2)
