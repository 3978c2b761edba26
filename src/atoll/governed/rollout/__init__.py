"""Rollouts: shadow run, growing canary shares, full rollout, and automatic rollback."""

from atoll.governed.rollout.rollout import Rollout, ServedValue, start_approved
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
    "Rollout",
    "RolloutPlan",
    "RolloutState",
    "ServedValue",
    "Stage",
    "compute_bucket",
    "is_treated",
    "start_approved",
    "state_key",
]
