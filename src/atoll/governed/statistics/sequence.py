"""Intervals and p-values that stay valid under repeated checks.

The asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (Time-uniform central limit theory
and asymptotic confidence sequences, 2021), written in units of information so that one formula serves pairs and two
independent samples. An estimate with information I (one over its variance) that is compared with 0 has the e-value

    e = exp(z^2 I t / (2 (1 + I t))) / sqrt(1 + I t),     z = estimate * sqrt(I),

the likelihood ratio of a normal mixture of effects with variance t against no effect. A stream without an effect
reaches 1/alpha with a probability of at most alpha, over all its length; 1/e is a p-value at any time.
"""

import math
from dataclasses import dataclass, field, replace

from atoll import errors
from atoll.governed.statistics import intervals
from atoll.governed.statistics.intervals import UNBOUNDED, Interval, Moments

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
    intervals.check_alpha(alpha)
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
