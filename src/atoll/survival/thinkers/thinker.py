"""Core Thinker: whoever makes plans and reflects on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from atoll.survival import grid
from atoll.survival.agent_state import AgentState
from atoll.survival.plan import ActionPlan, ExecutedAction, PlanningContext, Reflection
from atoll.survival.worlds.world import Action


class Thinker(Protocol):
    """Plans a turn and looks back on it."""

    def plan(self, agent: AgentState, context: PlanningContext) -> ActionPlan:
        """Returns what to do; it is checked before it is done. Never raises for what a model said."""

    def reflect(self, agent: AgentState, report: str, steps: Sequence[ExecutedAction]) -> Reflection:
        """Returns what a turn taught."""


@dataclass(slots=True)
class WaitThinker:
    """Does the first action of the list, which does nothing."""

    def plan(self, agent: AgentState, context: PlanningContext) -> ActionPlan:
        return ActionPlan("wait", (context.candidates[0],))

    def reflect(self, agent: AgentState, report: str, steps: Sequence[ExecutedAction]) -> Reflection:
        return Reflection("")


@dataclass(slots=True)
class RandomThinker(WaitThinker):
    """Does anything."""

    rng: Random

    def plan(self, agent: AgentState, context: PlanningContext) -> ActionPlan:
        return ActionPlan("anything", (self.rng.choice(context.candidates),))


@dataclass(slots=True)
class PolicyThinker(WaitThinker):
    """Does what a policy of the grid says, which sees the grid itself."""

    world: grid.SurvivalGrid
    policy: grid.Policy

    def plan(self, agent: AgentState, context: PlanningContext) -> ActionPlan:
        return ActionPlan("as the policy says", (Action(grid.ACTIONS[self.policy(self.world)]),))
