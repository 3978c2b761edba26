"""Tuner of constants. It needs no LLM."""

from atoll.mutation.tuner.engine import Tuner
from atoll.mutation.tuner.optimizer import Optimizer, maximize, minimize
from atoll.mutation.tuner.space import BestPoint, Space, Tunable
from atoll.mutation.tuner.tunables import find_tunables, tunable

__all__ = ["BestPoint", "Optimizer", "Space", "Tunable", "Tuner", "find_tunables", "maximize", "minimize", "tunable"]
