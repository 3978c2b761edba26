"""Thinks without a model: weighs needs, dangers and what is new, and takes the best way to the best goal.

Whatever it knows of signs, food, walls or nights it has from the playbook and from this life; with an empty playbook it
knows nothing and has to find out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from atoll.survival import foresight
from atoll.survival.atlas import AROUND, Ways
from atoll.survival.learning import AMBIENT
from atoll.survival.mind import Mind
from atoll.survival.plan import ActionPlan, Alert, Brief, Executed, Reflection
from atoll.survival.worlds.world import FACING, Action, Observation, Spot

COMFORT = 0.75  # below this level a resource is looked for
NEED, DIRE, REFUGE, NOVEL, REST = 70.0, 45.0, 30.0, 9.0, 1.0
FEAR = 90.0  # ticks of detour that one whole life is worth
RESTING = 3  # ticks that one rests before one looks again
BOLD = 0.7  # life above which something unknown is tried
LIMIT = 4  # actions of a plan: what is farther will look different by then


class Goal(NamedTuple):
    """Somewhere to go and something to do there.

    Attributes:
        value: What it is worth, in ticks, before the way is paid.
        act: What to do there; None: being there is all.
    """

    value: float
    what: str
    spot: Spot
    act: str | None = None


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
        ways = self._ways(mind, seen)
        best, gain = None, -1e9
        for goal in self._goals(mind, seen, ways):
            cost = ways.costs.get(goal.spot)
            if cost is not None and goal.value - cost > gain:
                best, gain = goal, goal.value - cost
        if best is None:
            return self._wander(mind, seen)
        return self._made(mind, seen, ways, best, gain)

    def reflect(self, mind: Mind, report: str, steps: Sequence[Executed]) -> Reflection:
        alerts = []
        for step in steps:
            for cause, amount in step.after.harm.items():
                look = step.after.here if cause not in AMBIENT else cause
                remedy = "find some soon" if cause in AMBIENT else f"go round {look}"
                when = "at night" if step.after.is_dark else "by day"
                alerts.append(Alert(look or cause, cause, when, remedy, amount))
        exploration = 0.6 if alerts else 1.0
        return Reflection(report, tuple(alerts), exploration)

    def _ways(self, mind: Mind, seen: Observation) -> Ways:
        """Returns the ways; a step costs a tick, and the damage to expect in ticks of detour that it is worth."""
        scale = FEAR / max(0.15, seen.life) if mind.temper.has_fear else 0.0
        prices = {
            look: None if mind.lore.is_wall(look) else 1.0 + scale * foresight.exposure(mind, look)
            for look in mind.atlas.names
        }
        tolls = foresight.tolls(mind, seen) if scale else {}
        return mind.atlas.ways(seen.position, prices, {spot: scale * harm for spot, harm in tolls.items()})

    def _goals(self, mind: Mind, seen: Observation, ways: Ways) -> Iterator[Goal]:
        yield from self._needs(mind, seen, ways)
        yield from self._wonders(mind, seen, ways)
        if mind.temper.has_fear:
            yield from self._refuges(mind, seen, ways)
        yield Goal(REST, "rest", seen.position, "wait" if "wait" in mind.world.actions else None)

    def _needs(self, mind: Mind, seen: Observation, ways: Ways) -> Iterator[Goal]:
        """Yields where to find what is running out, as far as that is known."""
        for need, level in seen.resources.items():
            if level >= COMFORT:
                continue
            urgency = ((COMFORT - level) / COMFORT) ** 1.5
            for action, look, chance in mind.lore.sources(need):
                renewing = {old for old, (new, _) in mind.lore.renewals.items() if new == look}
                for spot in self._places(mind, look, renewing, seen.tick):
                    if (stand := self._stand(mind, seen, ways, spot)) is not None:
                        yield Goal(NEED * urgency * chance, f"{action} at {look} for {need}", stand, action)

    def _places(self, mind: Mind, look: str, renewing: set[str], tick: int) -> Iterator[Spot]:
        atlas = mind.atlas
        for spot, each in atlas.looks.items():
            if each == look or (each in renewing and tick - atlas.changed[spot] >= mind.lore.renewals[each][1]):
                yield spot

    def _stand(self, mind: Mind, seen: Observation, ways: Ways, spot: Spot) -> Spot | None:
        """Returns where to stand to do something to a cell: on it, or, where one faces things, before it."""
        if mind.world.reach != FACING:
            return spot if spot in ways.costs else None
        x, y = spot
        beside = [(x - dx, y - dy) for dx, dy in AROUND]
        near = [each for each in beside if each in ways.costs]
        return min(near, key=lambda each: ways.costs[each], default=None)

    def _wonders(self, mind: Mind, seen: Observation, ways: Ways) -> Iterator[Goal]:
        """Yields what is new: unseen ground, looks that nobody has entered, deeds that nobody has tried.

        Whoever lacks something and knows no help looks around, curious or not.
        """
        keen, lost = NOVEL * mind.curiosity, DIRE * self._helpless(mind, seen)
        if keen <= 0 and lost <= 0:
            return
        atlas = mind.atlas
        for spot, unknown in atlas.edge.items():
            if spot in ways.costs:
                yield Goal(keen * (0.5 + 0.5 * unknown) + lost, "see what is beyond", spot)
        nearest: dict[str, Spot] = {}
        for spot, cost in ways.costs.items():
            look = atlas.looks.get(spot)
            if look is not None and (look not in nearest or cost < ways.costs[nearest[look]]):
                nearest[look] = spot
        for look, spot in nearest.items():
            fact = mind.lore.facts.get(look)
            if (fact is None or not fact.entered) and seen.life > BOLD:
                yield Goal(keen * 1.5, f"try {look}", spot)
            yield from self._trials(mind, look, spot, keen + lost / 2)

    def _helpless(self, mind: Mind, seen: Observation) -> float:
        """Returns how urgent the worst need is for which no help is known anywhere near."""
        worst = 0.0
        for need, level in seen.resources.items():
            if level < COMFORT:
                looks = {look for _, look, _ in mind.lore.sources(need)}
                if not looks.intersection(mind.atlas.looks.values()):
                    worst = max(worst, (COMFORT - level) / COMFORT)
        return worst

    def _trials(self, mind: Mind, look: str, spot: Spot, keen: float) -> Iterator[Goal]:
        for deed in mind.world.actions:
            if deed in mind.world.moves or deed == "wait":
                continue
            use = mind.lore.uses.get((deed, look))
            tries = use.tries if use else 0.0
            if tries < 2 and not (use and use.gains):
                yield Goal(1.2 * keen / (1.0 + tries), f"{deed} at {look}, to see", spot, deed)

    def _refuges(self, mind: Mind, seen: Observation, ways: Ways) -> Iterator[Goal]:
        if not mind.lore.is_dark_bad() or not mind.lore.refuges:
            return
        dusk = 0.0 if seen.is_dark else mind.ticks_to_dusk(seen.tick)
        for spot, look in mind.atlas.looks.items():
            if look in mind.lore.refuges and spot in ways.costs and dusk <= ways.costs[spot] + 2:
                yield Goal(REFUGE, f"wait in {look} until it is light", spot, "wait")

    def _made(self, mind: Mind, seen: Observation, ways: Ways, goal: Goal, gain: float) -> ActionPlan:
        path = ways.to(goal.spot)
        steps = [Action(_name(mind, *pair)) for pair in zip([seen.position, *path], path, strict=False)]
        if goal.act is not None and len(steps) < LIMIT:
            steps += [Action(goal.act)] * (RESTING if goal.act == "wait" else 1)
        actions = tuple(steps[:LIMIT]) or (Action(foresight.evasive(mind, seen)),)
        risk = mind.forecaster.forecast(foresight.features(mind, seen, path[:LIMIT]))
        feared = [mind.atlas.looks[spot] for spot in path[:LIMIT] if mind.lore.risk(mind.atlas.looks[spot], 0) > 0.5]
        used = {id for spot in path[:LIMIT] for id in mind.lore.told.get(mind.atlas.looks[spot], ())}
        cautions = tuple(f"{look} may hurt" for look in dict.fromkeys(feared))
        return ActionPlan(goal.what, actions, (), risk, gain / NEED, cautions, tuple(sorted(used)))

    def _wander(self, mind: Mind, seen: Observation) -> ActionPlan:
        name = self.rng.choice(list(mind.world.moves) or list(mind.world.actions))
        return ActionPlan("go anywhere", (Action(name),), risk=0.5)

    def _blind(self, mind: Mind, brief: Brief) -> ActionPlan:
        """Chooses where there is no map: what was refused is feared, what is new is tried."""
        best, most = brief.candidates[0], -1e9
        for each in brief.candidates:
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
