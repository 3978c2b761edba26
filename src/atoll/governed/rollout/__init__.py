"""Rollouts: from a shadow to a few, to many, to all; and back by itself when something guarded gets worse."""

from atoll.governed.rollout.assignment import bucket_of, is_treated
from atoll.governed.rollout.plan import Plan
from atoll.governed.rollout.rollout import Rollout, Served
from atoll.governed.rollout.state import STATE_PREFIX, Stage, State, state_key

__all__ = ["STATE_PREFIX", "Plan", "Rollout", "Served", "Stage", "State", "bucket_of", "is_treated", "state_key"]
