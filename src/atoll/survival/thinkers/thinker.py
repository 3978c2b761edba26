"""Core Thinker: whoever makes plans and reflects on them."""

from collections.abc import Sequence
from typing import Protocol

from atoll.survival.mind import AgentState
from atoll.survival.plan import ActionPlan, PlanningContext, ExecutedAction, Reflection


class Thinker(Protocol):
    """Plans a turn and looks back on it."""

    def plan(self, agent: AgentState, context: PlanningContext) -> ActionPlan:
        """Returns what to do; it is checked before it is done. Never raises for what a model said."""

    def reflect(self, agent: AgentState, report: str, steps: Sequence[ExecutedAction]) -> Reflection:
        """Returns what a turn taught."""
