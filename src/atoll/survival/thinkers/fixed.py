"""Ways to live that learn nothing, to measure against: waiting, dice, greed, and knowing everything."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from atoll.survival import grid
from atoll.survival.mind import AgentState
from atoll.survival.plan import ActionPlan, PlanningContext, ExecutedAction, Reflection
from atoll.survival.worlds.world import Action


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
