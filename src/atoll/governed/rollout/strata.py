"""Comparison of two arms by strata of step and time, clustered by entity.

The share of the candidate grows from step to step. If the metric drifts or has a daily cycle, the pooled means of the
two arms then differ although the candidate has no effect. So the arms are compared only within strata: the same step
and the same block of time. The estimate is the mean of these differences, weighted by their precision.

Measurements of one entity are not independent. Entities are hashed into groups, and the variance is that of the groups'
contributions. An effect of an entity that persists over blocks adds up in its group, so more measurements of the same
entities do not make the interval tighter than it is. Closed strata are summed up: the size of the state is bounded.
"""

import functools
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from atoll.governed.statistics import UNBOUNDED, Evidence, Interval, compute_evidence, compute_mixture_variance

NUM_GROUPS = 64
BLOCK_SECONDS = 3600.0
MIN_COUNT = 5  # measurements of each arm in a stratum; a smaller one is continued in the next block
MIN_GROUPS = 10  # groups of treated entities before any decision
BASELINE, CANDIDATE = "baseline", "candidate"

type Sums = dict[int, tuple[int, float]]  # count and sum of the measurements by group


@functools.lru_cache(maxsize=8192)
def compute_group(entity: str) -> int:
    """Returns the group of an entity."""
    return hashlib.sha256(f"group|{entity}".encode()).digest()[0] % NUM_GROUPS


def compute_block(timestamp: datetime) -> int:
    """Returns the number of the block of time."""
    return int(timestamp.timestamp() // BLOCK_SECONDS)


@dataclass(slots=True)
class Stratum:
    """Measurements of one step and block that is not closed yet."""

    step: int
    block: int
    arms: dict[str, Sums] = field(default_factory=lambda: {BASELINE: {}, CANDIDATE: {}})

    def add(self, arm: str, group: int, value: float) -> None:
        count, total = self.arms[arm].get(group, (0, 0.0))
        self.arms[arm][group] = (count + 1, total + value)

    def merge(self, other: "Stratum") -> None:
        for arm, sums in other.arms.items():
            for group, (count, total) in sums.items():
                old_count, old_total = self.arms[arm].get(group, (0, 0.0))
                self.arms[arm][group] = (old_count + count, old_total + total)

    def count(self, arm: str) -> int:
        return sum(count for count, _ in self.arms[arm].values())

    @property
    def is_complete(self) -> bool:
        return min(self.count(BASELINE), self.count(CANDIDATE)) >= MIN_COUNT


@dataclass(slots=True)
class StratifiedComparison:
    """Difference of two arms of one metric.

    Attributes:
        weight: Sum of the weights of closed strata.
        weighted_difference: Sum of their differences, times the weights.
        contributions: Sum of the weighted residuals of each group.
        treated: Groups with measurements of the candidate.
        open_strata: Strata that are not closed yet, in order.
    """

    weight: float = 0.0
    weighted_difference: float = 0.0
    contributions: list[float] = field(default_factory=lambda: [0.0] * NUM_GROUPS)
    treated: set[int] = field(default_factory=set)
    open_strata: list[Stratum] = field(default_factory=list)

    def add(self, step: int, block: int, arm: str, group: int, value: float) -> None:
        """Adds a measurement and closes the strata of earlier steps and blocks."""
        if arm == CANDIDATE:
            self.treated.add(group)
        for stratum in self.open_strata:
            if (stratum.step, stratum.block) == (step, block):
                stratum.add(arm, group, value)
                return
        self._close_before(step, block)
        stratum = Stratum(step, block)
        stratum.add(arm, group, value)
        if self.open_strata and self.open_strata[-1].step == step and not self.open_strata[-1].is_complete:
            stratum.merge(self.open_strata.pop())
        self.open_strata.append(stratum)

    def _close_before(self, step: int, block: int) -> None:
        """Closes complete strata. One that is not complete is continued in the same step, and dropped in the next."""
        remaining = []
        for stratum in self.open_strata:
            is_past = stratum.step != step or stratum.block < block
            if is_past and stratum.is_complete:
                self._close(stratum)
            elif stratum.step == step:
                remaining.append(stratum)
        self.open_strata = remaining

    def _close(self, stratum: Stratum) -> None:
        counts = {arm: stratum.count(arm) for arm in stratum.arms}
        means = {arm: sum(total for _, total in sums.values()) / counts[arm] for arm, sums in stratum.arms.items()}
        weight = 1 / (1 / counts[BASELINE] + 1 / counts[CANDIDATE])
        self.weight += weight
        self.weighted_difference += weight * (means[CANDIDATE] - means[BASELINE])
        for arm, sign in ((CANDIDATE, 1.0), (BASELINE, -1.0)):
            # Residuals from an estimated mean are too small by this factor.
            factor = sign * weight / counts[arm] * math.sqrt(counts[arm] / (counts[arm] - 1))
            for group, (count, total) in stratum.arms[arm].items():
                self.contributions[group] += factor * (total - count * means[arm])

    def get_evidence(self, num_smaller: int, variance: float, *, alpha: float, expected: float) -> Evidence:
        """Returns the evidence on candidate minus baseline, valid at any time.

        Args:
            num_smaller: Number of measurements of the smaller arm.
            variance: Variance of one measurement; it only sets where the interval is tightest.
        """
        total = self._with_open_strata()
        if not total.weight or len(self.treated) < MIN_GROUPS:
            return Evidence(num_smaller, 0.0, UNBOUNDED, 1.0, 1.0)
        estimate = total.weighted_difference / total.weight
        used = [contribution for contribution in total.contributions if contribution]
        spread = sum(item * item for item in used) / total.weight**2 * len(used) / max(len(used) - 1, 1)
        if not variance:
            return Evidence(num_smaller, estimate, Interval(estimate, estimate), 1.0, 1.0)
        spread = max(spread, 1e-6 * variance / num_smaller)
        mixture = compute_mixture_variance(alpha, expected) * variance
        return compute_evidence(num_smaller, estimate, 1 / spread, mixture, alpha)

    def _with_open_strata(self) -> "StratifiedComparison":
        total = StratifiedComparison(self.weight, self.weighted_difference, list(self.contributions))
        for stratum in self.open_strata:
            if stratum.is_complete:
                total._close(stratum)
        return total

    def to_data(self) -> Mapping[str, Any]:
        strata = [
            {"step": stratum.step, "block": stratum.block}
            | {arm: [[group, *sums] for group, sums in by_group.items()] for arm, by_group in stratum.arms.items()}
            for stratum in self.open_strata
        ]
        return {
            "weight": self.weight,
            "weighted_difference": self.weighted_difference,
            "contributions": self.contributions,
            "treated": sorted(self.treated),
            "open": strata,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "StratifiedComparison":
        strata = [
            Stratum(
                item["step"],
                item["block"],
                {arm: {group: (count, total) for group, count, total in item[arm]} for arm in (BASELINE, CANDIDATE)},
            )
            for item in data["open"]
        ]
        contributions, treated = list(data["contributions"]), set(data["treated"])
        return cls(data["weight"], data["weighted_difference"], contributions, treated, strata)
