"""Constants, tuned by numbers alone."""

from atoll.mutation.tuner.declared import declared, tunable
from atoll.mutation.tuner.engine import Tuner
from atoll.mutation.tuner.optimiser import Optimiser, maximise, minimise
from atoll.mutation.tuner.space import Found, Space, Tunable

__all__ = ["Found", "Optimiser", "Space", "Tunable", "Tuner", "declared", "maximise", "minimise", "tunable"]
