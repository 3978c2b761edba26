"""Tuner of constants. It needs no LLM."""

from atoll.mutation.tuner.engine import Tuner, find_tunables, tunable
from atoll.mutation.tuner.optimizer import Optimizer, maximize, minimize
from atoll.mutation.tuner.space import BestPoint, Space, Tunable

__all__ = ["BestPoint", "Optimizer", "Space", "Tunable", "Tuner", "find_tunables", "maximize", "minimize", "tunable"]
