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


class Paired:
    """The pairs of one metric so far."""

    def __init__(self, alpha: float, expected: float, start: int) -> None:
        self.sequence = ConfidenceSequence(alpha, expected, start)
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

    def __init__(self, alpha: float = 0.05, expected: float = 200.0, start: int = 20) -> None:
        ConfidenceSequence(alpha, expected, start)  # refuses what cannot be, before the first pair
        self._alpha, self._expected, self._start = alpha, expected, start
        self._paired: dict[str, Paired] = {}

    def add(self, baseline: Mapping[str, float], candidate: Mapping[str, float]) -> None:
        """Takes in one sample's metrics under both arms; what only one of them has is left out."""
        for name, value in baseline.items():
            if name in candidate:
                if name not in self._paired:
                    self._paired[name] = Paired(self._alpha, self._expected, self._start)
                self._paired[name].add(value, candidate[name])

    def look(self) -> Mapping[str, Evidence]:
        """Returns the evidence on every metric so far; cheap enough for after each pair."""
        return {name: each.sequence.look() for name, each in self._paired.items()}

    def dimensions(self, *, seed: int = 0) -> Mapping[str, Dimension]:
        """Returns all that can be said of every metric, sorted."""
        evidence = self.look()
        adjusted = holm({name: each.p_value for name, each in evidence.items()})
        found = e_bh({name: each.e_value for name, each in evidence.items()}, self._alpha)
        return {
            name: self._dimension(self._paired[name], evidence[name], adjusted[name], name in found, seed)
            for name in sorted(self._paired)
        }

    def _dimension(self, paired: Paired, evidence: Evidence, adjusted: float, is_found: bool, seed: int) -> Dimension:
        differences: Sequence[float] = paired.differences
        return Dimension(
            baseline=paired.baseline.mean,
            candidate=paired.candidate.mean,
            difference=paired.sequence.moments.mean,
            count=len(differences),
            evidence=evidence,
            t_interval=t_interval(paired.sequence.moments, self._alpha),
            bootstrap_interval=bootstrap_interval(differences, self._alpha, seed=seed),
            adjusted_p=adjusted,
            is_found=is_found,
        )
