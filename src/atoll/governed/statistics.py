"""Statistics for decisions: moments, intervals, confidence sequences, and multiple tests."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from atoll import errors

__all__ = [
    "ConfidenceSequence",
    "Evidence",
    "Interval",
    "Moments",
    "RatioCheck",
    "bootstrap_interval",
    "check_ratio",
    "compare_means",
    "compute_sample_size",
    "e_bh",
    "holm",
    "normal_quantile",
    "t_interval",
]


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


def normal_quantile(probability: float) -> float:
    """Returns the quantile of the standard normal distribution; infinite at 0 and 1."""
    if 0 < probability < 1:
        return statistics.NormalDist().inv_cdf(probability)
    return math.copysign(math.inf, probability - 0.5)


_MAX_SERIES = 500  # degrees of freedom; above, an expansion in 1 / degrees is exact to nine digits


def _student_quantile(probability: float, degrees: int) -> float:
    """Returns a quantile above the median of Student's distribution (Abramowitz and Stegun, 26.7)."""
    z = normal_quantile(probability)
    if degrees > _MAX_SERIES:
        terms = (
            (z**3 + z) / 4,
            (5 * z**5 + 16 * z**3 + 3 * z) / 96,
            (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
            (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
        )
        return z + math.fsum(term / float(degrees) ** power for power, term in enumerate(terms, 1))
    steps = np.arange(1 + degrees % 2, degrees - 1, 2)
    weights = np.cumprod(np.concatenate([[1.0], steps / (steps + 1)]))  # of cos**(2 * index)
    low, high = 0.0, math.pi / 2  # angle: tangent times the root of the degrees is the quantile
    while low < (angle := (low + high) / 2) < high:
        series = math.sin(angle) * float(weights @ (math.cos(angle) ** 2) ** np.arange(len(weights)))
        if degrees % 2:
            series = (angle + (series * math.cos(angle) if degrees > 1 else 0.0)) * 2 / math.pi
        low, high = (angle, high) if series < 2 * probability - 1 else (low, angle)
    return math.tan(low) * math.sqrt(degrees)


def t_interval(moments: Moments, alpha: float = 0.05) -> Interval:
    """Returns Student's interval of the mean; infinite with fewer than two values."""
    check_alpha(alpha)
    if moments.count < 2:
        return UNBOUNDED
    half_width = _student_quantile(1 - alpha / 2, moments.count - 1) * moments.deviation / math.sqrt(moments.count)
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
    z_sum = normal_quantile(1 - alpha / 2) + normal_quantile(power)
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
    marginal = math.lgamma(num_candidate + 1) + math.lgamma(num_baseline + 1) - math.lgamma(total + 2)
    planned = num_candidate * math.log(expected) + num_baseline * math.log1p(-expected)
    p_value = math.exp(min(0.0, planned - marginal))
    return RatioCheck(num_candidate / total if total else 0.0, expected, p_value, p_value < alpha)


MIN_COUNT = 20  # pairs before the first check: with fewer the variance is unreliable
MAX_LOG = 700.0  # exp of more overflows


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence of a stream at one time.

    Attributes:
        interval: Contains the effect at all times together, with probability 1 - alpha.
        e_value: Evidence against an effect of 0; 1 is none, 20 is strong.
        p_value: Valid at any time; so is the smallest one so far.
    """

    count: int
    estimate: float
    interval: Interval
    e_value: float
    p_value: float


def compute_mixture_variance(alpha: float, expected: float) -> float:
    """Returns the mixture variance, times the variance of one value, that is optimal after `expected` values.

    Raises:
        SetupError: alpha is not a probability, or `expected` is not positive.
    """
    check_alpha(alpha)
    if not expected > 0:
        raise errors.SetupError(f"expected={expected}: use the approximate number of values until a decision.")
    log_bound = 2 * math.log(1 / alpha)
    return (log_bound + math.log(1 + log_bound)) / expected


def compute_log_e_value(estimate: float, information: float, mixture: float) -> float:
    """Returns the logarithm of the two-sided e-value of an estimate against 0."""
    spread = 1 + information * mixture
    return estimate**2 * information**2 * mixture / (2 * spread) - math.log(spread) / 2


def compute_half_width(information: float, mixture: float, alpha: float) -> float:
    """Returns half the width of the interval."""
    spread = 1 + information * mixture
    return math.sqrt(2 * spread / (information**2 * mixture) * (math.log(spread) / 2 - math.log(alpha)))


def compute_evidence(count: int, estimate: float, information: float, mixture: float, alpha: float) -> Evidence:
    """Returns the evidence of an estimate with some information."""
    half_width = compute_half_width(information, mixture, alpha)
    log_e_value = compute_log_e_value(estimate, information, mixture)
    p_value = math.exp(-max(log_e_value, 0.0)) if log_e_value < MAX_LOG else 0.0
    e_value = math.exp(min(log_e_value, MAX_LOG))
    return Evidence(count, estimate, Interval(estimate - half_width, estimate + half_width), e_value, p_value)


@dataclass(slots=True)
class ConfidenceSequence:
    """Confidence sequence of the mean of paired differences.

    Attributes:
        alpha: Probability that the interval is ever wrong.
        expected: Approximate number of values until a decision; there the interval is tightest.
        min_count: Number of values before the first evidence.
    """

    alpha: float = 0.05
    expected: float = 200.0
    min_count: int = MIN_COUNT
    moments: Moments = field(default_factory=Moments)
    min_p_value: float = 1.0

    def __post_init__(self) -> None:
        compute_mixture_variance(self.alpha, self.expected)
        if self.min_count < 2:
            raise errors.SetupError(f"min_count={self.min_count}: a variance needs at least two values.")

    def add(self, value: float) -> None:
        self.moments.add(value)

    def get_evidence(self) -> Evidence:
        """Returns the current evidence. Its p-value is the smallest so far."""
        moments = self.moments
        if moments.count < self.min_count:
            return Evidence(moments.count, moments.mean, UNBOUNDED, 1.0, self.min_p_value)
        if moments.variance <= (1e-12 * moments.mean) ** 2:
            if not moments.mean:
                return Evidence(moments.count, 0.0, Interval(0.0, 0.0), 1.0, self.min_p_value)
            # A variance of 0 is not trusted: one more value of 0 is assumed.
            moments = Moments(*moments.to_data())
            moments.add(0.0)
        information = moments.count / moments.variance
        mixture = compute_mixture_variance(self.alpha, self.expected) * moments.variance
        result = compute_evidence(self.moments.count, moments.mean, information, mixture, self.alpha)
        self.min_p_value = min(self.min_p_value, result.p_value)
        return replace(result, p_value=self.min_p_value)


def compare_means(
    baseline: Moments, candidate: Moments, *, alpha: float = 0.05, expected: float = 200.0, min_count: int = MIN_COUNT
) -> Evidence:
    """Returns the evidence on the difference of two independent streams, candidate minus baseline, at any time.

    Information that grows by independent increments makes the estimate a Brownian motion in it, whatever the shares of
    the two streams (Jennison and Turnbull, 1997).

    Args:
        expected: Approximate number of values of the smaller stream until a decision.
    """
    smaller = min(baseline.count, candidate.count)
    estimate = candidate.mean - baseline.mean
    pooled = Moments(*baseline.to_data())
    pooled.merge(candidate)
    if smaller < min_count:
        return Evidence(smaller, estimate, UNBOUNDED, 1.0, 1.0)
    if not pooled.variance:
        return Evidence(smaller, 0.0, Interval(0.0, 0.0), 1.0, 1.0)
    # Few values of a rare event can have no variance by chance: use the variance of both streams together.
    spread = sum(max(arm.variance, pooled.variance) / arm.count for arm in (baseline, candidate))
    mixture = compute_mixture_variance(alpha, expected) * pooled.variance
    return compute_evidence(smaller, estimate, 1 / spread, mixture, alpha)
