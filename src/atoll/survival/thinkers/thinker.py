"""Core Thinker: whoever makes plans and reflects on them."""

from collections.abc import Sequence
from typing import Protocol

from atoll.survival.mind import Mind
from atoll.survival.plan import ActionPlan, Brief, Executed, Reflection


class Thinker(Protocol):
    """Plans a turn and looks back on it."""

    def plan(self, mind: Mind, brief: Brief) -> ActionPlan:
        """Returns what to do; it is checked before it is done. Never raises for what a model said."""

    def reflect(self, mind: Mind, report: str, steps: Sequence[Executed]) -> Reflection:
        """Returns what a turn taught."""
