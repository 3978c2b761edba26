"""Execution Engine: does whitelisted actions one by one, and stops or evades the moment danger shows."""

from dataclasses import dataclass, replace

from atoll.survival import foresight
from atoll.survival.mind import Mind
from atoll.survival.plan import ActionPlan, Executed
from atoll.survival.roles.sentinel import Sentinel
from atoll.survival.worlds.world import FACING, Action, Observation

NEAR = 2  # cells at which a hunter that was not there before ends a plan


@dataclass(slots=True)
class ExecutionEngine:
    """Maps a plan to the world. Nothing of a plan is ever executed as it came: an action is a name on a list."""

    sentinel: Sentinel

    def run(self, mind: Mind, plan: ActionPlan, seen: Observation) -> list[Executed]:
        """Does a plan as far as it is safe; returns what was done, at least one action."""
        steps: list[Executed] = []
        for number, action in enumerate(plan.actions):
            if fault := self.sentinel.fault(mind, action, seen):
                self.sentinel.log("blocked", seen.tick, action=str(action), reason=fault)
                steps.append(Executed(action, "blocked", seen, seen, fault))
                continue
            if danger := self._danger(mind, action, seen):
                steps.append(self._evade(mind, action, seen, danger))
                break
            after = self._act(mind, action, seen)
            steps.append(Executed(action, "refused" if after.refused else "done", seen, after, after.refused))
            if after.is_over:
                break
            if reason := self._alarm(mind, seen, after):
                if number + 1 < len(plan.actions):
                    self.sentinel.log("aborted", after.tick, reason=reason, action=str(plan.actions[number + 1]))
                break
            seen = after
        if all(step.status == "blocked" for step in steps):
            steps.append(self._evade(mind, Action("nothing"), seen, "nothing of the plan could be done"))
        return steps

    def _act(self, mind: Mind, action: Action, seen: Observation) -> Observation:
        after = self.sentinel.listen(mind.world.act(action))
        _watch_levels(mind, seen, after)
        return after

    def _danger(self, mind: Mind, action: Action, seen: Observation) -> str:
        """Says why an action is too dangerous at this moment; empty if it is not."""
        if not mind.temper.has_fear or action.name not in mind.world.moves:
            return ""
        dx, dy = mind.world.moves[action.name]
        look = seen.looks.get((seen.position[0] + dx, seen.position[1] + dy))
        fact = mind.lore.facts.get(look) if look is not None else None
        if look is None or fact is None or not fact.hurt:
            return ""
        if mind.world.reach == FACING and (fact.hunts or mind.lore.is_wall(look)):
            return ""  # whoever goes towards it only turns to it
        standing = mind.lore.facts.get(seen.here)
        if standing is not None and standing.hurt > 0.5 * standing.entered:
            return ""  # already in it: the way out may lead through it
        risk, threshold = mind.lore.risk(look, 0.0), mind.temper.danger_threshold
        worst = fact.mean_damage() >= 0.5 * seen.life
        if risk > threshold or (worst and risk > 0.5 * threshold):
            return f"{look} hurts with {risk:.2f}, more than {threshold:.2f}"
        return ""

    def _evade(self, mind: Mind, action: Action, seen: Observation, danger: str) -> Executed:
        instead = Action(foresight.evasive(mind, seen)) if mind.world.moves else Action(mind.world.actions[0])
        self.sentinel.log("emergency", seen.tick, action=str(action), instead=str(instead), reason=danger)
        after = self._act(mind, instead, seen)
        return Executed(instead, "evaded", seen, after, f"instead of {action}: {danger}")

    def _alarm(self, mind: Mind, seen: Observation, after: Observation) -> str:
        """Says why the rest of a plan is not done after an action."""
        if after.refused:
            return after.refused
        if after.harm:
            return f"damage by {', '.join(after.harm)}"
        if after.is_dark != seen.is_dark:
            return "night falls" if after.is_dark else "it is light"
        if mind.temper.has_fear:
            near = [spot for spot in foresight.hunters(mind, after) if foresight.distance(spot, after.position) <= NEAR]
            if near:
                return "something that hunts is near"
        return ""


def _watch_levels(mind: Mind, seen: Observation, after: Observation) -> None:
    """Learns what a tick takes of each resource."""
    ticks = max(1, after.tick - seen.tick)
    for name, level in after.resources.items():
        spent = (seen.resources.get(name, level) - level) / ticks
        if spent > 0:
            mind.rates[name] = mind.rates.get(name, spent) * 0.9 + 0.1 * spent


def unharmed(seen: Observation) -> Observation:
    """Returns an observation without what the last action did."""
    return replace(seen, harm={}, gained=(), reward=0.0, refused="")
