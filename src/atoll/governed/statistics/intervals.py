"""Intervals for a sample whose size was fixed before anybody looked.

Whoever looks at one of these again and again and stops when it excludes 0 is wrong nearly half the time
(`scripts/bench governed_statistics`); `sequence` is for that.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy import special

from atoll import errors


@dataclass(slots=True)
class Moments:
    """Running moments by Welford's recurrence, which loses no digits where a sum of squares would.

    Attributes:
        count: How many values were taken.
        mean: Their mean, 0 if there are none.
        squares: The sum of squared distances from the mean.
    """

    count: int = 0
    mean: float = 0.0
    squared_deviations: float = 0.0

    @classmethod
    def from_values(cls, values: Iterable[float]) -> Self:
        moments = cls()
        for value in values:
            moments.add(value)
        return moments

    def add(self, value: float) -> None:
        self.count += 1
        delta = value - self.mean
        self.mean += delta / self.count
        self.squared_deviations += delta * (value - self.mean)

    def merge(self, other: "Moments") -> None:
        """Takes in what another one has seen (Chan, Golub and LeVeque, 1979)."""
        if not other.count:
            return
        count, delta = self.count + other.count, other.mean - self.mean
        self.squared_deviations += other.squared_deviations + delta * delta * self.count * other.count / count
        self.mean += delta * other.count / count
        self.count = count

    @property
    def variance(self) -> float:
        """The unbiased variance; 0 with fewer than two values."""
        return self.squared_deviations / (self.count - 1) if self.count > 1 else 0.0

    @property
    def deviation(self) -> float:
        return math.sqrt(self.variance)

    def to_data(self) -> tuple[int, float, float]:
        return (self.count, self.mean, self.squared_deviations)


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


def holm(p_values: Mapping[str, float]) -> Mapping[str, float]:
    """Returns p-values adjusted after Holm (1979): one below alpha is wrong anywhere with probability alpha."""
    adjusted: dict[str, float] = {}
    worst = 0.0
    for index, name in enumerate(sorted(p_values, key=lambda name: (p_values[name], name))):
        worst = max(worst, min(1.0, p_values[name] * (len(p_values) - index)))
        adjusted[name] = worst
    return {name: adjusted[name] for name in p_values}


def e_bh(e_values: Mapping[str, float], alpha: float = 0.05) -> frozenset[str]:
    """Returns the findings whose share of false ones is alpha at most, however they depend on each other.

    The e-BH procedure of Wang and Ramdas (2022): the k largest where the k-th is at least n / (k alpha).
    """
    check_alpha(alpha)
    ranked = sorted(e_values, key=lambda name: (-e_values[name], name))
    passing_ranks = [rank for rank, name in enumerate(ranked, 1) if rank * e_values[name] >= len(ranked) / alpha]
    return frozenset(ranked[: max(passing_ranks, default=0)])


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
