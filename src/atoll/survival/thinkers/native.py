"""Thinks without a model: weighs needs, dangers and what is new, and takes the best way to the best goal.

Whatever it knows of signs, food, walls or nights it has from the playbook and from this life; with an empty playbook it
knows nothing and has to find out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from atoll.survival import foresight
from atoll.survival.atlas import Ways
from atoll.survival.learning import AMBIENT
from atoll.survival.mind import Mind
from atoll.survival.plan import ActionPlan, Alert, Brief, Executed, Reflection
from atoll.survival.thinkers import goals
from atoll.survival.thinkers.goals import Goal
from atoll.survival.worlds.world import Action, Observation, Spot

FEAR = 60.0  # ticks of detour that one whole life is worth
LIMIT = 4  # actions of a plan: what is farther will look different by then
RESTING = 3  # ticks that one rests before one looks again


@dataclass(slots=True)
class Native:
    """The thinker that needs no model."""

    rng: Random

    def plan(self, mind: Mind, brief: Brief) -> ActionPlan:
        seen = brief.observation
        for need in seen.resources:
            mind.recall(f"gives {need}")
        mind.recall("dark night daylight refuge")
        if not seen.looks:
            return self._blind(mind, brief)
        for deed in mind.world.actions:
            if deed not in mind.world.moves:
                mind.recall(deed)
        world, shop = mind.world, mind.workshop
        deeds = [each for each in world.actions if each not in world.moves and each not in world.things]
        shop.items |= seen.held.keys()
        shop.is_open = any(deed not in shop.recipes for deed in deeds if deed != "wait")
        ways = self._ways(mind, seen)
        best, gain = None, -1e9
        for goal in goals.goals(mind, seen, ways):
            cost = ways.costs.get(goal.spot)
            if cost is not None and goal.value - cost > gain:
                best, gain = goal, goal.value - cost
        return self._wander(mind) if best is None else self._made(mind, seen, ways, best, gain)

    def reflect(self, mind: Mind, report: str, steps: Sequence[Executed]) -> Reflection:
        alerts = []
        for step in steps:
            for cause, amount in step.after.harm.items():
                look = step.after.here if cause not in AMBIENT else cause
                remedy = "find some soon" if cause in AMBIENT else f"go round {look}"
                when = "at night" if step.after.is_dark else "by day"
                alerts.append(Alert(look or cause, cause, when, remedy, amount))
        return Reflection(report, tuple(alerts), 0.6 if alerts else 1.0)

    def _ways(self, mind: Mind, seen: Observation) -> Ways:
        """Returns the ways; a step costs a tick, and the damage to expect in ticks of detour that it is worth."""
        scale = FEAR / max(0.15, seen.life) if mind.temper.has_fear else 0.0
        prices = {
            look: None if mind.lore.is_wall(look) else 1.0 + scale * foresight.exposure(mind, look)
            for look in mind.atlas.names
        }
        tolls = foresight.tolls(mind, seen) if scale else {}
        return mind.atlas.ways(seen.position, prices, {spot: scale * harm for spot, harm in tolls.items()})

    def _made(self, mind: Mind, seen: Observation, ways: Ways, goal: Goal, gain: float) -> ActionPlan:
        path = ways.to(goal.spot)
        steps = [Action(_name(mind, *pair)) for pair in zip([seen.position, *path], path, strict=False)]
        if goal.target is not None and not (not path and seen.facing == goal.target):
            steps.append(Action(_name(mind, goal.spot, goal.target)))
        if goal.act is not None and len(steps) < LIMIT:
            steps += [Action(goal.act)] * (RESTING if goal.act == "wait" else 1)
        actions = tuple(steps[:LIMIT]) or (Action(foresight.evasive(mind, seen)),)
        risk = mind.forecaster.forecast(foresight.features(mind, seen, path[:LIMIT]))
        looks = [mind.atlas.looks[spot] for spot in path[:LIMIT]]
        feared = [look for look in looks if mind.lore.risk(look, 0) > 0.5]
        used = {id for look in looks for id in mind.lore.told.get(look, ())}
        cautions = tuple(f"{look} may hurt" for look in dict.fromkeys(feared))
        return ActionPlan(goal.what, actions, (), risk, gain / goals.NEED, cautions, tuple(sorted(used)))

    def _wander(self, mind: Mind) -> ActionPlan:
        name = self.rng.choice(list(mind.world.moves) or list(mind.world.actions))
        return ActionPlan("go anywhere", (Action(name),), risk=0.5)

    def _blind(self, mind: Mind, brief: Brief) -> ActionPlan:
        """Chooses where there is no map: what was refused is feared, what is new is tried."""
        best, most = brief.candidates[0], -1e9
        for each in brief.candidates:
            mind.recall(str(each))
            use, fact = mind.lore.uses.get((each.name, each.target)), mind.lore.facts.get(str(each))
            tries = use.tries if use else 0.0
            worth = (use.gains.total() / use.tries if use and use.tries else 0.0) + self.rng.random() * 0.1
            worth += mind.curiosity / (1.0 + tries) ** 0.5
            if mind.temper.has_fear and fact is not None:
                worth -= 2.0 * fact.hurt / (fact.entered + 1.0)
            if worth > most:
                best, most = each, worth
        return ActionPlan(f"{best}", (best,), expected_reward=most)


def _name(mind: Mind, here: Spot, there: Spot) -> str:
    step = (there[0] - here[0], there[1] - here[1])
    return next(name for name, each in mind.world.moves.items() if each == step)
