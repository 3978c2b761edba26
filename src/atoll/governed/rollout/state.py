"""State of a rollout. It is a parameter, so it is versioned, audited and survives restarts."""

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from atoll import errors
from atoll.governed import statistics
from atoll.governed.rollout import strata
from atoll.governed.rollout.shadow_result import Guardrail
from atoll.governed.rollout.strata import BASELINE, CANDIDATE
from atoll.governed.statistics import Evidence, Moments, RatioCheck, check_ratio, compare_means

DEFAULT_SHARES = (0.01, 0.05, 0.1, 0.25)
DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """Stages of a rollout.

    Attributes:
        guardrails: Metrics that must not become worse; at least one, since only they trigger a rollback.
        shares: Growing fractions of entities that get the candidate, one per canary stage.
        min_samples: Measurements of treated entities per guarded metric before a stage can end.
        min_seconds: Minimum duration of a stage.
        bake_seconds: Monitoring time after the last stage.
        cooldown_seconds: Time after a rollback before the next rollout of the key.
        alpha: Probability that a harmless candidate is ever rolled back.
        expected: Number of treated measurements after which harm should be detected.
        needs_shadow: Require a shadow run with the verdict promote before the canary.
        max_seconds: Maximum duration of a stage before full. A stage that takes longer is rolled back.
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
    max_seconds: float = 14 * DAY_SECONDS

    def __post_init__(self) -> None:
        statistics.check_alpha(self.alpha)
        if not self.guardrails:
            raise errors.SetupError("A rollout needs at least one guardrail, since only they trigger a rollback.")
        is_growing = all(smaller < larger for smaller, larger in pairwise((0.0, *self.shares, 1.0)))
        if not self.shares or not is_growing:
            raise errors.SetupError(f"shares={tuple(self.shares)}: use growing fractions above 0 and below 1.")
        if self.min_samples < 0 or min(self.min_seconds, self.bake_seconds, self.cooldown_seconds) < 0:
            raise errors.SetupError("min_samples and all seconds of a rollout plan must be 0 or more.")

    def to_data(self) -> Mapping[str, Any]:
        return {
            **asdict(self),
            "shares": list(self.shares),
            "guardrails": [asdict(guardrail) for guardrail in self.guardrails],
        }

    @classmethod
    def from_policy(cls, data: Mapping[str, Any]) -> "RolloutPlan":
        """Reads the plan of a policy. Its guardrails are texts such as `late:0.02:lower`.

        A shadow run is not part of it: the policy asks for one with `needs`, before the approval.

        Raises:
            SetupError: The plan is not valid.
        """
        try:
            guardrails = [Guardrail.parse(text) for text in data["guardrails"]]
            return cls(**{"needs_shadow": False, **data, "guardrails": guardrails})
        except (TypeError, KeyError, AttributeError) as error:
            raise errors.SetupError(f"The plan of the policy is not valid: {error}.") from None

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "RolloutPlan":
        guardrails = tuple(Guardrail(**data_item) for data_item in data["guardrails"])
        return cls(**{**data, "guardrails": guardrails, "shares": tuple(data["shares"])})


type Stage = Literal["proposed", "shadow", "canary", "full", "rolled_back"]

STATE_PREFIX = "rollout/"
FULL = "full"  # measurements of the candidate after the last stage, beside both arms
SUDDEN_HARM = 3.0  # standard deviations
MAX_EXPOSED = 2000  # entities of the sample ratio test of a step


def state_key(key: str) -> str:
    """Returns the key of the parameter that holds the rollout state of another one."""
    return f"{STATE_PREFIX}{key}"


class Measurement(NamedTuple):
    """Value of a metric, measured for an entity of one arm."""

    metric: str
    arm: str
    entity: str
    value: float
    timestamp: datetime


@dataclass(frozen=True, slots=True)
class RolloutState:
    """State of one rollout.

    Attributes:
        key: The parameter.
        value: Candidate value.
        proposal: Id of the proposal.
        author: Author of the proposal.
        baseline_version: Version that a rollback restores.
        step: Index of the current share during the canary.
        entered_at: Start of the current stage or step.
        entered_count: Treated measurements at that time, by metric.
        arms: Moments of every guarded metric, by arm.
        strata: Stratified comparison of every guarded metric, as JSON data.
        exposed: Hashes of the first entities of this step, by arm, for the sample ratio test.
        fed_at: Time up to which feedback was read from a channel.
        is_settled: The rollout has ended: full and no longer monitored, or rolled back.
        why: Reason of the last change.
        approved_by: Approvers of the proposal.
        content_hash: Hash of the approved content.
        group: Keys of a bundle, which is rolled out as a whole. The state of the first has all measurements.
    """

    key: str
    value: Any
    proposal: str
    author: str
    salt: str
    baseline_version: int
    plan: RolloutPlan
    entered_at: datetime
    stage: Stage = "proposed"
    step: int = 0
    is_settled: bool = False
    why: str = ""
    fed_at: datetime | None = None
    entered_count: Mapping[str, int] = field(default_factory=dict)
    arms: Mapping[str, Mapping[str, tuple[int, float, float]]] = field(default_factory=dict)
    strata: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    exposed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    approved_by: Sequence[str] = ()
    content_hash: str = ""
    group: Sequence[str] = ()

    @property
    def leader(self) -> str:
        """Key whose state has the measurements, and whose name assigns the entities."""
        return self.group[0] if self.group else self.key

    @property
    def guardrails(self) -> Sequence[Guardrail]:
        """Guardrails with their margins. A default margin depends on the baseline's standard deviation so far."""
        return [item.resolve(self.moments(item.metric, BASELINE).deviation) for item in self.plan.guardrails]

    def is_treated(self, entity: str) -> bool:
        """Checks whether an entity gets the candidate now. All keys of a bundle have the same entities."""
        return is_treated(self.salt, self.leader, entity, self.share)

    @property
    def token(self) -> str | None:
        """Token of the version that a stored proposal sets, as in `Proposal.token`."""
        return f"{self.proposal}/{self.content_hash[:16]}" if self.proposal.startswith("p-") else None

    @property
    def share(self) -> float:
        """Fraction of entities that get the candidate now."""
        if self.stage == "canary":
            return self.plan.shares[self.step]
        return 1.0 if self.stage == "full" else 0.0

    def moments(self, metric: str, arm: str) -> Moments:
        return Moments(*self.arms.get(metric, {}).get(arm, (0, 0.0, 0.0)))

    def evidence(self, metric: str) -> Evidence:
        """Returns the evidence on candidate minus baseline, by strata and entities. The guardrails share alpha."""
        alpha = self.plan.alpha / len(self.plan.guardrails)
        pooled, candidate = self.moments(metric, BASELINE), self.moments(metric, CANDIDATE)
        num_smaller = min(pooled.count, candidate.count)
        pooled.merge(candidate)
        comparison = _load_comparison(self.strata, metric)
        return comparison.get_evidence(num_smaller, pooled.variance, alpha=alpha, expected=self.plan.expected)

    def check_ratio(self) -> RatioCheck | None:
        """Compares the entities of both arms with the planned share; None outside the canary."""
        if self.stage != "canary":
            return None
        num_baseline, num_candidate = (len(self.exposed.get(arm, ())) for arm in (BASELINE, CANDIDATE))
        return check_ratio(num_baseline, num_candidate, self.share)

    def has_sudden_harm(self, guardrail: Guardrail) -> bool:
        """Checks for harm after the last stage that no drift explains.

        Then all entities have the candidate, so only earlier measurements remain to compare with. The metric must be
        worse by the margin and `SUDDEN_HARM` standard deviations.
        """
        baseline, full = self.moments(guardrail.metric, BASELINE), self.moments(guardrail.metric, FULL)
        limit = replace(guardrail, margin=guardrail.allowed_loss + SUDDEN_HARM * baseline.deviation)
        return limit.is_breached(compare_means(baseline, full, alpha=self.plan.alpha).interval)

    def with_measurements(self, measurements: Sequence[Measurement]) -> "RolloutState":
        """Returns the state with new measurements added, in the order of their times."""
        arms = {metric: dict(by_arm) for metric, by_arm in self.arms.items()}
        metrics = {item.metric for item in measurements}
        comparisons = {metric: _load_comparison(self.strata, metric) for metric in metrics}
        exposed = {arm: dict.fromkeys(self.exposed.get(arm, ())) for arm in (BASELINE, CANDIDATE)}
        moments = {(metric, arm): self.moments(metric, arm) for metric in metrics for arm in (*exposed, FULL)}
        for item in sorted(measurements, key=lambda item: item.timestamp):
            moments[item.metric, item.arm].add(item.value)
            if self.stage == "full" and item.arm == CANDIDATE:
                moments[item.metric, FULL].add(item.value)
            # After the last step all entities have the candidate, but for those that are reported as baseline.
            step = self.step if self.stage == "canary" else len(self.plan.shares)
            block, group = strata.compute_block(item.timestamp), strata.compute_group(item.entity)
            comparisons[item.metric].add(step, block, item.arm, group, item.value)
            if self.stage == "canary" and sum(map(len, exposed.values())) < MAX_EXPOSED:
                exposed[item.arm][hash_entity(item.entity)] = None
        for (metric, arm), total in moments.items():
            if total.count:
                arms.setdefault(metric, {})[arm] = total.to_data()
        stored = {metric: comparison.to_data() for metric, comparison in comparisons.items()}
        return replace(
            self,
            arms=arms,
            strata={**self.strata, **stored},
            exposed={arm: tuple(names) for arm, names in exposed.items() if names},
        )

    def count_new(self, metric: str) -> int:
        """Returns the number of treated measurements since the stage or step began."""
        return self.moments(metric, CANDIDATE).count - self.entered_count.get(metric, 0)

    def move_to(
        self, stage: Stage, now: datetime, reason: str, *, step: int = 0, is_settled: bool = False
    ) -> "RolloutState":
        metrics = [guardrail.metric for guardrail in self.plan.guardrails]
        counts = {metric: self.moments(metric, CANDIDATE).count for metric in metrics}
        return replace(
            self,
            stage=stage,
            step=step,
            entered_at=now,
            entered_count=counts,
            why=reason,
            is_settled=is_settled,
            exposed={},
        )

    def to_data(self) -> Mapping[str, Any]:
        data = {name: getattr(self, name) for name in self.__slots__}
        arms = {metric: {arm: list(values) for arm, values in arms.items()} for metric, arms in self.arms.items()}
        counts = dict(self.entered_count)
        return {
            **data,
            "plan": self.plan.to_data(),
            "entered_at": self.entered_at.isoformat(),
            "entered_count": counts,
            "fed_at": None if self.fed_at is None else self.fed_at.isoformat(),
            "arms": arms,
            "approved_by": list(self.approved_by),
            "group": list(self.group),
            "exposed": {arm: list(names) for arm, names in self.exposed.items()},
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "RolloutState":
        arms = {
            metric: {arm: (values[0], values[1], values[2]) for arm, values in arms.items()}
            for metric, arms in data["arms"].items()
        }
        fed_at = data["fed_at"]
        parsed = {
            "plan": RolloutPlan.from_data(data["plan"]),
            "entered_at": datetime.fromisoformat(data["entered_at"]),
            "fed_at": None if fed_at is None else datetime.fromisoformat(fed_at),
            "arms": arms,
            "approved_by": tuple(data.get("approved_by", ())),
            "group": tuple(data.get("group", ())),
            "exposed": {arm: tuple(names) for arm, names in data.get("exposed", {}).items()},
        }
        return cls(**{**data, **parsed})


def _load_comparison(data: Mapping[str, Mapping[str, Any]], metric: str) -> strata.StratifiedComparison:
    if metric not in data:
        return strata.StratifiedComparison()
    return strata.StratifiedComparison.from_data(data[metric])


@functools.lru_cache(maxsize=8192)
def hash_entity(entity: str) -> str:
    """Returns a short hash of an entity."""
    return hashlib.sha256(entity.encode()).hexdigest()[:12]


def compute_bucket(salt: str, key: str, entity: str) -> float:
    """Returns the position of an entity between 0 and 1. It depends only on the arguments and never changes."""
    return int.from_bytes(hashlib.sha256(f"{salt}|{key}|{entity}".encode()).digest()[:8]) / 2**64


def is_treated(salt: str, key: str, entity: str, share: float) -> bool:
    """Checks whether an entity gets the candidate value. With a growing share no entity ever loses it."""
    return compute_bucket(salt, key, entity) < share
