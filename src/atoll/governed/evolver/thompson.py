"""Thompson sampling over a few values: tries what may be best as often as it may be best."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from atoll import errors
from atoll.governed.evolver.proposer import Suggestion, select_evidence
from atoll.governed.feedback.record import Feedback
from atoll.governed.statistics import Moments

NUM_DRAWS = 400  # to tell how likely a value is the best


@dataclass(frozen=True, slots=True)
class ThompsonProposer:
    """Suggests one of some values by a draw from what is believed of each.

    Feedback says by `meta[field]` which value it is about; what names none is left out. Beliefs are normal, with the
    spread of all evidence as that of one measurement, and a prior that is worth one measurement of the overall mean.
    Confidence is the probability that the value is the best.

    Attributes:
        values: What can be chosen.
        metric: Which; empty takes all evidence.
        field: Where feedback names its value.
        seed: The same evidence and seed, the same choice.
    """

    values: Sequence[Any]
    metric: str = ""
    field: str = "value"
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.values) < 2:
            raise errors.SetupError("Thompson sampling needs two values at least to choose from.")

    def __call__(self, key: str, evidence: Sequence[Feedback]) -> Suggestion:
        records = [record for record in select_evidence(evidence, self.metric) if record.meta and self.field in record.meta]
        overall = Moments.from_values(record.value for record in records)
        arms = [
            Moments.from_values(record.value for record in records if record.meta and record.meta[self.field] == value)
            for value in self.values
        ]
        spread = overall.deviation or 1.0
        rng = Random(f"{self.seed}/{key}/{len(records)}")
        draws = [[self._draw(arm, overall.mean, spread, rng) for arm in arms] for _ in range(NUM_DRAWS)]
        best = [max(range(len(arms)), key=sample.__getitem__) for sample in draws]
        return Suggestion(self.values[best[0]], best.count(best[0]) / NUM_DRAWS)

    @staticmethod
    def _draw(arm: Moments, mean: float, spread: float, rng: Random) -> float:
        posterior_mean = (arm.mean * arm.count + mean) / (arm.count + 1)
        return rng.gauss(posterior_mean, spread / math.sqrt(arm.count + 1))
