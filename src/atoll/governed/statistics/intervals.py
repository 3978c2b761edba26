"""Moments, intervals for a fixed sample size, multiple testing, and sample ratio checks.

Checking a fixed-size interval repeatedly and stopping when it excludes 0 is wrong nearly half the time
(`scripts/bench governed_statistics`). Use `sequence` for repeated checks.
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
    """Running moments by Welford's recurrence, which avoids the cancellation of a sum of squares.

    Attributes:
        count: Number of values.
        mean: Mean of the values, 0 if there are none.
        squared_deviations: Sum of squared distances from the mean.
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
        """Adds the values of another one (Chan, Golub and LeVeque, 1979)."""
        if not other.count:
            return
        count, delta = self.count + other.count, other.mean - self.mean
        self.squared_deviations += other.squared_deviations + delta * delta * self.count * other.count / count
        self.mean += delta * other.count / count
        self.count = count

    @property
    def variance(self) -> float:
        """Unbiased variance; 0 with fewer than two values."""
        return self.squared_deviations / (self.count - 1) if self.count > 1 else 0.0

    @property
    def deviation(self) -> float:
        return math.sqrt(self.variance)

    def to_data(self) -> tuple[int, float, float]:
        return (self.count, self.mean, self.squared_deviations)


class Interval(NamedTuple):
    """Confidence interval of a mean and its level."""

    low: float
    high: float

    def excludes(self, value: float) -> bool:
        return not self.low <= value <= self.high


UNBOUNDED = Interval(-math.inf, math.inf)


def check_alpha(alpha: float) -> None:
    """Validates a probability of error.

    Raises:
        SetupError: alpha is not between 0 and 1.
    """
    if not 0 < alpha < 1:
        raise errors.SetupError(f"alpha={alpha} is not a probability. Use a number between 0 and 1, e.g. 0.05.")


def t_interval(moments: Moments, alpha: float = 0.05) -> Interval:
    """Returns Student's interval of the mean; infinite with fewer than two values."""
    check_alpha(alpha)
    if moments.count < 2:
        return UNBOUNDED
    half_width = float(special.stdtrit(moments.count - 1, 1 - alpha / 2)) * moments.deviation / math.sqrt(moments.count)
    return Interval(moments.mean - half_width, moments.mean + half_width)


def bootstrap_interval(
    values: Sequence[float], alpha: float = 0.05, *, num_resamples: int = 1000, seed: int = 0
) -> Interval:
    """Returns the percentile interval of resampled means. Equal values and seed give an equal interval."""
    check_alpha(alpha)
    if len(values) < 2:
        return UNBOUNDED
    rng, sample = np.random.default_rng(seed), np.asarray(values, dtype=float)
    # One resample at a time: a thousand at once would need gigabytes for a long sample.
    means = [sample[rng.integers(0, len(sample), len(sample))].mean() for _ in range(num_resamples)]
    low, high = np.quantile(means, [alpha / 2, 1 - alpha / 2])
    return Interval(float(low), float(high))


def compute_sample_size(effect: float, *, alpha: float = 0.05, power: float = 0.8) -> int:
    """Returns the number of pairs that a fixed-size test needs to detect an effect, in standard deviations."""
    check_alpha(alpha)
    if not effect:
        raise errors.SetupError("effect=0 needs an infinite sample. Use the smallest effect that matters.")
    z_sum = float(special.ndtri(1 - alpha / 2) + special.ndtri(power))
    return math.ceil((z_sum / effect) ** 2)


def holm(p_values: Mapping[str, float]) -> Mapping[str, float]:
    """Returns p-values adjusted after Holm (1979), which bounds the probability of any false positive."""
    adjusted: dict[str, float] = {}
    worst = 0.0
    for index, name in enumerate(sorted(p_values, key=lambda name: (p_values[name], name))):
        worst = max(worst, min(1.0, p_values[name] * (len(p_values) - index)))
        adjusted[name] = worst
    return {name: adjusted[name] for name in p_values}


def e_bh(e_values: Mapping[str, float], alpha: float = 0.05) -> frozenset[str]:
    """Returns the findings with a false discovery rate of at most alpha under any dependence.

    The e-BH procedure of Wang and Ramdas (2022): the k largest where the k-th is at least n / (k alpha).
    """
    check_alpha(alpha)
    ranked = sorted(e_values, key=lambda name: (-e_values[name], name))
    passing_ranks = [rank for rank, name in enumerate(ranked, 1) if rank * e_values[name] >= len(ranked) / alpha]
    return frozenset(ranked[: max(passing_ranks, default=0)])


STRICT_ALPHA = 0.001  # low, since the check runs continuously


class RatioCheck(NamedTuple):
    """Result of a sample ratio check.

    Attributes:
        share: Fraction of the second group.
        p_value: Valid at any time, however often it is checked.
        is_off: The split is broken, so comparisons of the groups are not valid.
    """

    share: float
    expected: float
    p_value: float
    is_off: bool


def check_ratio(num_baseline: int, num_candidate: int, expected: float, *, alpha: float = STRICT_ALPHA) -> RatioCheck:
    """Compares the fraction of the second group with the expected one.

    The evidence is the likelihood ratio of a uniform prior against the expected share. It is a martingale if the split
    is right, so repeated checks are allowed (Lindon and Malek, 2020).

    Raises:
        SetupError: The expected share is not between 0 and 1.
    """
    if not 0 < expected < 1:
        raise errors.SetupError(f"expected={expected} leaves one group empty. Use a share between 0 and 1.")
    total = num_baseline + num_candidate
    marginal = float(special.betaln(num_candidate + 1, num_baseline + 1))
    planned = num_candidate * math.log(expected) + num_baseline * math.log1p(-expected)
    p_value = math.exp(min(0.0, planned - marginal))
    return RatioCheck(num_candidate / total if total else 0.0, expected, p_value, p_value < alpha)
