"""Rollouts: from a shadow to a few, to many, to all; and back by itself when something guarded gets worse."""

from atoll.governed.rollout.rollout import Rollout, ServedValue
from atoll.governed.rollout.state import (
    STATE_PREFIX,
    RolloutPlan,
    RolloutState,
    Stage,
    compute_bucket,
    is_treated,
    state_key,
)

__all__ = [
    "STATE_PREFIX",
    "RolloutPlan",
    "Rollout",
    "ServedValue",
    "Stage",
    "RolloutState",
    "compute_bucket",
    "is_treated",
    "state_key",
]
