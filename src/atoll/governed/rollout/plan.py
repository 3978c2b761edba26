"""How a rollout goes on, and what stops it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from atoll import errors
from atoll.governed.shadow.guardrail import Guardrail
from atoll.governed.statistics import intervals

DEFAULT_SHARES = (0.01, 0.05, 0.1, 0.25)
DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """The steps of a rollout.

    Attributes:
        guardrails: What must not become worse; one at least, or nothing could ever roll back by itself.
        shares: Of the entities that get the candidate, step by step, growing.
        min_samples: Measurements of treated entities, of each guarded metric, before a step ends.
        min_seconds: How long a step takes at least.
        bake_seconds: How long it stays guarded once all have it.
        cooldown_seconds: How long after a rollback no new rollout of the key begins.
        alpha: The probability that a harmless candidate is ever rolled back.
        expected: Measurements of treated entities after which harm should be seen.
        needs_shadow: A shadow run must say promote before the first real entity gets the candidate.
    """

    guardrails: Sequence[Guardrail]
    shares: Sequence[float] = DEFAULT_SHARES
    min_samples: int = 50
    min_seconds: float = 3600.0
    bake_seconds: float = DAY_SECONDS
    cooldown_seconds: float = DAY_SECONDS
    alpha: float = 0.05
    expected: float = 200.0
    needs_shadow: bool = True

    def __post_init__(self) -> None:
        intervals.check_alpha(self.alpha)
        if not self.guardrails:
            raise errors.SetupError("A rollout needs a guardrail: without one it could not roll back by itself.")
        is_growing = all(smaller < larger for smaller, larger in pairwise((0.0, *self.shares, 1.0)))
        if not self.shares or not is_growing:
            raise errors.SetupError(f"shares={tuple(self.shares)}: give growing shares above 0 and below 1.")
        if self.min_samples < 0 or min(self.min_seconds, self.bake_seconds, self.cooldown_seconds) < 0:
            raise errors.SetupError("Numbers of samples and seconds in a plan are 0 or more.")

    def to_data(self) -> Mapping[str, Any]:
        return {**asdict(self), "shares": list(self.shares), "guardrails": [asdict(guardrail) for guardrail in self.guardrails]}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "RolloutPlan":
        guardrails = tuple(Guardrail(**data_item) for data_item in data["guardrails"])
        return cls(**{**data, "guardrails": guardrails, "shares": tuple(data["shares"])})
