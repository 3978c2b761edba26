"""Core Thinker: makes plans and reflects on them. Includes the fixed thinkers."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from atoll.survival import grid
from atoll.survival.agent_state import AgentState
from atoll.survival.plan import ActionPlan, ExecutedAction, PlanningContext, Reflection
from atoll.survival.worlds.world import Action


class Thinker(Protocol):
    """Plans a turn and reflects on it."""

    def plan(self, agent: AgentState, context: PlanningContext) -> ActionPlan:
        """Returns a plan, which is checked before it runs. Never raises because of an LLM response."""

    def reflect(self, agent: AgentState, report: str, steps: Sequence[ExecutedAction]) -> Reflection:
        """Returns the reflection on a turn."""


@dataclass(slots=True)
class WaitThinker:
    """Always executes the first action, which does nothing."""

    def plan(self, agent: AgentState, context: PlanningContext) -> ActionPlan:
        return ActionPlan("wait", (context.candidates[0],))

    def reflect(self, agent: AgentState, report: str, steps: Sequence[ExecutedAction]) -> Reflection:
        return Reflection("")


@dataclass(slots=True)
class RandomThinker(WaitThinker):
    rng: Random

    def plan(self, agent: AgentState, context: PlanningContext) -> ActionPlan:
        return ActionPlan("anything", (self.rng.choice(context.candidates),))


@dataclass(slots=True)
class PolicyThinker(WaitThinker):
    """Follows a grid policy, which sees the full grid."""

    world: grid.SurvivalGrid
    policy: grid.Policy

    def plan(self, agent: AgentState, context: PlanningContext) -> ActionPlan:
        return ActionPlan("follow the policy", (Action(grid.ACTIONS[self.policy(self.world)]),))
