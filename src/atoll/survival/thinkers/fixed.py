"""Ways to live that learn nothing, to measure against: waiting, dice, greed, and knowing everything."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from atoll.survival import grid
from atoll.survival.mind import Mind
from atoll.survival.plan import ActionPlan, Brief, Executed, Reflection
from atoll.survival.worlds.world import Action


@dataclass(slots=True)
class Waiting:
    """Does the first action of the list, which does nothing."""

    def plan(self, mind: Mind, brief: Brief) -> ActionPlan:
        return ActionPlan("wait", (brief.candidates[0],))

    def reflect(self, mind: Mind, report: str, steps: Sequence[Executed]) -> Reflection:
        return Reflection("")


@dataclass(slots=True)
class Dice(Waiting):
    """Does anything."""

    rng: Random

    def plan(self, mind: Mind, brief: Brief) -> ActionPlan:
        return ActionPlan("anything", (self.rng.choice(brief.candidates),))


@dataclass(slots=True)
class Policy(Waiting):
    """Does what a policy of the grid says, which sees the grid itself."""

    world: grid.SurvivalGrid
    policy: grid.Policy

    def plan(self, mind: Mind, brief: Brief) -> ActionPlan:
        return ActionPlan("as the policy says", (Action(grid.ACTIONS[self.policy(self.world)]),))
