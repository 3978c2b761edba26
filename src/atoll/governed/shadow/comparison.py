"""Two arms on the same samples, dimension by dimension."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from atoll.governed.statistics import (
    ConfidenceSequence,
    Evidence,
    Interval,
    Moments,
    bootstrap_interval,
    e_bh,
    holm,
    t_interval,
)


@dataclass(frozen=True, slots=True)
class Dimension:
    """What two arms say about one metric.

    Attributes:
        baseline, candidate: Means over the samples that both arms have.
        difference: Mean of candidate minus baseline, pair by pair.
        evidence: The interval that holds at all looks, the e-value and the p-value that is valid at any moment.
        t_interval, bootstrap_interval: For whoever fixed the size beforehand and looks once.
        adjusted_p: The p-value after Holm, over all dimensions.
        is_found: The difference stands after e-BH, over all dimensions.
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
    """The pairs of one metric so far."""

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
    """Gathers pairs by metric and says at any moment what they tell.

    Args:
        alpha: The probability that an interval is ever wrong.
        expected: After about how many pairs a decision should fall.
        start: Says nothing before so many pairs.
    """

    def __init__(self, alpha: float = 0.05, expected: float = 200.0, min_count: int = 20) -> None:
        ConfidenceSequence(alpha, expected, min_count)  # refuses what cannot be, before the first pair
        self._alpha, self._expected, self._min_count = alpha, expected, min_count
        self._samples_by_metric: dict[str, PairedSamples] = {}

    def add(self, baseline: Mapping[str, float], candidate: Mapping[str, float]) -> None:
        """Takes in one sample's metrics under both arms; what only one of them has is left out."""
        for name, value in baseline.items():
            if name in candidate:
                if name not in self._samples_by_metric:
                    self._samples_by_metric[name] = PairedSamples(self._alpha, self._expected, self._min_count)
                self._samples_by_metric[name].add(value, candidate[name])

    def get_evidence(self) -> Mapping[str, Evidence]:
        """Returns the evidence on every metric so far; cheap enough for after each pair."""
        return {name: samples.sequence.get_evidence() for name, samples in self._samples_by_metric.items()}

    def compute_dimensions(self, *, seed: int = 0) -> Mapping[str, Dimension]:
        """Returns all that can be said of every metric, sorted."""
        evidence = self.get_evidence()
        adjusted = holm({name: metric_evidence.p_value for name, metric_evidence in evidence.items()})
        significant = e_bh({name: metric_evidence.e_value for name, metric_evidence in evidence.items()}, self._alpha)
        return {
            name: self._make_dimension(self._samples_by_metric[name], evidence[name], adjusted[name], name in significant, seed)
            for name in sorted(self._samples_by_metric)
        }

    def _make_dimension(self, samples: PairedSamples, evidence: Evidence, adjusted: float, is_found: bool, seed: int) -> Dimension:
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
