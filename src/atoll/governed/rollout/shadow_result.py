"""Results of shadow runs: paired comparison of two arms, guardrails, and samplers."""

import dataclasses
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from atoll import errors
from atoll.candidate import Candidate
from atoll.governed.statistics import (
    ConfidenceSequence,
    Evidence,
    Interval,
    Moments,
    RatioCheck,
    bootstrap_interval,
    e_bh,
    holm,
    t_interval,
)


@dataclass(frozen=True, slots=True)
class Dimension:
    """Comparison of two arms by one metric.

    Attributes:
        baseline, candidate: Means over the samples that both arms scored.
        difference: Mean of candidate minus baseline over the pairs.
        evidence: Confidence sequence, e-value and p-value, valid at any time.
        t_interval, bootstrap_interval: Valid only for a sample size fixed in advance.
        adjusted_p: p-value adjusted after Holm over all dimensions.
        is_found: The difference is significant after e-BH over all dimensions.
    """

    baseline: float
    candidate: float
    difference: float
    count: int
    evidence: Evidence
    t_interval: Interval
    bootstrap_interval: Interval
    adjusted_p: float
    is_found: bool


class PairedSamples:
    """Pairs of one metric."""

    def __init__(self, alpha: float, expected: float, min_count: int) -> None:
        self.sequence = ConfidenceSequence(alpha, expected, min_count)
        self.baseline, self.candidate = Moments(), Moments()
        self.differences: list[float] = []

    def add(self, baseline: float, candidate: float) -> None:
        self.baseline.add(baseline)
        self.candidate.add(candidate)
        self.differences.append(candidate - baseline)
        self.sequence.add(candidate - baseline)


class Comparison:
    """Collects pairs by metric and evaluates them at any time.

    Args:
        alpha: Probability that an interval is ever wrong.
        expected: Approximate number of pairs until a decision.
        min_count: Number of pairs before the first evaluation.
    """

    def __init__(self, alpha: float = 0.05, expected: float = 200.0, min_count: int = 20) -> None:
        ConfidenceSequence(alpha, expected, min_count)  # validates the arguments before the first pair
        self._alpha, self._expected, self._min_count = alpha, expected, min_count
        self._samples_by_metric: dict[str, PairedSamples] = {}

    def add(self, baseline: Mapping[str, float], candidate: Mapping[str, float]) -> None:
        """Adds the metrics of one sample under both arms. Metrics of only one arm are ignored."""
        for name, value in baseline.items():
            if name in candidate:
                if name not in self._samples_by_metric:
                    self._samples_by_metric[name] = PairedSamples(self._alpha, self._expected, self._min_count)
                self._samples_by_metric[name].add(value, candidate[name])

    def get_evidence(self) -> Mapping[str, Evidence]:
        """Returns the current evidence on every metric; cheap enough to call after each pair."""
        return {name: samples.sequence.get_evidence() for name, samples in self._samples_by_metric.items()}

    def get_deviation(self, metric: str) -> float:
        """Returns the standard deviation of a metric under the current value; 0 if it was not measured."""
        samples = self._samples_by_metric.get(metric)
        return samples.baseline.deviation if samples else 0.0

    def compute_dimensions(self, *, seed: int = 0) -> Mapping[str, Dimension]:
        """Returns the full comparison of every metric, sorted by name."""
        evidence = self.get_evidence()
        adjusted = holm({name: metric_evidence.p_value for name, metric_evidence in evidence.items()})
        significant = e_bh({name: metric_evidence.e_value for name, metric_evidence in evidence.items()}, self._alpha)
        return {
            name: self._make_dimension(
                self._samples_by_metric[name], evidence[name], adjusted[name], name in significant, seed
            )
            for name in sorted(self._samples_by_metric)
        }

    def _make_dimension(
        self, samples: PairedSamples, evidence: Evidence, adjusted: float, is_found: bool, seed: int
    ) -> Dimension:
        differences: Sequence[float] = samples.differences
        return Dimension(
            baseline=samples.baseline.mean,
            candidate=samples.candidate.mean,
            difference=samples.sequence.moments.mean,
            count=len(differences),
            evidence=evidence,
            t_interval=t_interval(samples.sequence.moments, self._alpha),
            bootstrap_interval=bootstrap_interval(differences, self._alpha, seed=seed),
            adjusted_p=adjusted,
            is_found=is_found,
        )


FITNESS = "fitness"  # name of the score among the dimensions
DEFAULT_MARGIN = 0.1  # standard deviations; a smaller effect is small for most purposes


@dataclass(frozen=True, slots=True)
class Guardrail:
    """Metric that a candidate may worsen by less than a margin (non-inferiority).

    Attributes:
        metric: Metric of the breakdown, or `fitness`.
        margin: Allowed loss, in units of the metric; None: a tenth of the standard deviation of the current value.
        lower_is_better: For costs, latencies and error rates.
    """

    metric: str
    margin: float | None = None
    lower_is_better: bool = False

    def __post_init__(self) -> None:
        if not self.metric or not (self.margin is None or self.margin >= 0):
            raise errors.SetupError(f"A guardrail needs a metric and a margin of 0 or more, not {self}.")

    @classmethod
    def parse(cls, text: str) -> "Guardrail":
        """Parses `METRIC`, `METRIC:MARGIN`, `METRIC:MARGIN:lower` or `METRIC::lower`.

        Raises:
            SetupError: The text has another form.
        """
        metric, *options = text.split(":")
        try:
            margin = float(options[0]) if options and options[0] else None
        except ValueError:
            margin = -1.0
        if (
            not metric
            or not (margin is None or 0 <= margin < math.inf)
            or options[1:] not in ([], ["lower"], ["higher"])
        ):
            raise errors.SetupError(
                f"{text!r:.80} is not a guardrail. Write METRIC, METRIC:MARGIN, or METRIC:MARGIN:lower for costs."
            )
        return cls(metric, margin, options[1:] == ["lower"])

    def resolve(self, deviation: float) -> "Guardrail":
        """Returns the guardrail with its margin, given the standard deviation of the metric under the current value."""
        return self if self.margin is not None else dataclasses.replace(self, margin=DEFAULT_MARGIN * deviation)

    @property
    def allowed_loss(self) -> float:
        return self.margin or 0.0

    def to_gain(self, interval: Interval) -> Interval:
        """Returns the interval of the difference with positive values meaning better."""
        return Interval(-interval.high, -interval.low) if self.lower_is_better else interval

    def is_breached(self, difference: Interval) -> bool:
        """Checks whether the candidate is significantly worse than the margin allows."""
        return self.to_gain(difference).high < -self.allowed_loss

    def is_satisfied(self, difference: Interval) -> bool:
        """Checks whether the candidate is significantly better than the margin requires."""
        return self.to_gain(difference).low >= -self.allowed_loss


type Verdict = Literal["promote", "reject", "extend"]


@dataclass(frozen=True, slots=True)
class ShadowResult:
    """Result of comparing two values of a parameter.

    Attributes:
        baseline_fitness, candidate_fitness: Mean scores.
        baseline_breakdown, candidate_breakdown: Means of every metric.
        sample_size: Pairs that both arms scored.
        divergence: Difference of the means relative to the larger one, 0 to 1.
        disagreement: Fraction of samples on which the arms differ.
        verdict: promote, reject, or extend if the evidence is not sufficient.
        reason: Explanation of the verdict.
        dimensions: Comparison by `fitness` and by every metric.
        num_failed: Samples that an arm could not score, by arm.
        noise: Variance of repeated scores of a sample; None without repeats.
        num_calls, num_saved: Scores computed, and scores saved by stopping early.
        ratio: Check of the sampled fraction, if the sampler knows its size.
        meta: Free for callers.
    """

    baseline_fitness: float = 0.0
    candidate_fitness: float = 0.0
    baseline_breakdown: Mapping[str, float] = field(default_factory=dict)
    candidate_breakdown: Mapping[str, float] = field(default_factory=dict)
    sample_size: int = 0
    divergence: float = 0.0
    disagreement: float = 0.0
    verdict: Verdict = "extend"
    reason: str = "no samples"
    dimensions: Mapping[str, Dimension] = field(default_factory=dict)
    num_failed: Mapping[str, int] = field(default_factory=dict)
    noise: float | None = None
    num_calls: int = 0
    num_saved: int = 0
    ratio: RatioCheck | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def to_data(self) -> Mapping[str, Any]:
        """Returns the result as JSON data; infinite bounds are null."""
        plain = _to_json(dataclasses.asdict(self))
        assert isinstance(plain, dict)
        return plain


def compute_divergence(baseline: float, candidate: float) -> float:
    """Returns the difference of two means relative to the larger one, at most 1."""
    return min(abs(baseline - candidate) / max(abs(baseline), abs(candidate), 1e-9), 1.0)


def _to_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _to_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def hash_to_unit(id: str, salt: str = "") -> float:
    """Returns a number from 0 to 1 that depends only on the id. A growing fraction keeps all earlier ids."""
    return int.from_bytes(hashlib.sha256(f"{salt}|{id}".encode()).digest()[:8]) / 2**64


class FixedSampler:
    """Selects a fraction of fixed candidates by the hash of their ids."""

    def __init__(self, candidates: Sequence[Candidate], *, salt: str = "") -> None:
        self._candidates, self._salt = tuple(candidates), salt

    def __call__(self, traffic: float) -> Sequence[Candidate]:
        return [
            candidate
            for candidate in self._candidates
            if traffic >= 1 or hash_to_unit(candidate.id, self._salt) < traffic
        ]

    @property
    def num_offered(self) -> int:
        """Number of candidates to choose from."""
        return len(self._candidates)
