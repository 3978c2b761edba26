"""What a shadow run found."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from atoll.governed.shadow.comparison import Dimension
from atoll.governed.statistics import RatioCheck

type Verdict = Literal["promote", "reject", "extend"]


@dataclass(frozen=True, slots=True)
class ShadowResult:
    """Two arms beside each other.

    Attributes:
        baseline_fitness, candidate_fitness: Mean scores.
        baseline_breakdown, candidate_breakdown: Means of every metric.
        sample_size: Pairs that both arms scored.
        divergence: How far the means are apart, as a share of the larger; 0 to 1.
        disagreement: The share of samples on which the arms differ at all.
        verdict: Promote, reject, or extend: nothing is sure yet.
        reason: Why, in words.
        dimensions: All that can be said of `fitness` and every metric.
        num_failed: Samples that an arm could not score, by arm.
        noise: Variance of a score that is taken again, where scores were repeated; else None.
        num_calls, num_saved: Scores taken, and not taken since the verdict was clear before the samples were used up.
        ratio: Whether the sample has the share that was asked for, where the sampler tells.
        meta: Free.
    """

    baseline_fitness: float = 0.0
    candidate_fitness: float = 0.0
    baseline_breakdown: Mapping[str, float] = field(default_factory=dict)
    candidate_breakdown: Mapping[str, float] = field(default_factory=dict)
    sample_size: int = 0
    divergence: float = 0.0
    disagreement: float = 0.0
    verdict: Verdict = "extend"
    reason: str = "there is no sample"
    dimensions: Mapping[str, Dimension] = field(default_factory=dict)
    num_failed: Mapping[str, int] = field(default_factory=dict)
    noise: float | None = None
    num_calls: int = 0
    num_saved: int = 0
    ratio: RatioCheck | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def to_data(self) -> Mapping[str, Any]:
        """Returns the result as plain JSON; what has no bound is null."""
        plain = _to_json(dataclasses.asdict(self))
        assert isinstance(plain, dict)
        return plain


def compute_divergence(baseline: float, candidate: float) -> float:
    """Returns how far two means are apart, relative to the larger, 1 at most."""
    return min(abs(baseline - candidate) / max(abs(baseline), abs(candidate), 1e-9), 1.0)


def _to_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _to_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
