"""Constants, tuned by numbers alone."""

from atoll.mutation.tuner.declared import find_tunables, tunable
from atoll.mutation.tuner.engine import Tuner
from atoll.mutation.tuner.optimiser import Optimizer, maximize, minimize
from atoll.mutation.tuner.space import BestPoint, Space, Tunable

__all__ = ["BestPoint", "Optimizer", "Space", "Tunable", "Tuner", "find_tunables", "maximize", "minimize", "tunable"]
