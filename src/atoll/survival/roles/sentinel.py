"""Safety Sentinel: looks at plans before and at words before anybody; blocks, warns, and offers a fallback."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from atoll.candidate import JSON
from atoll.survival import foresight
from atoll.survival.mind import Mind
from atoll.survival.plan import ActionPlan
from atoll.survival.words import gives_orders
from atoll.survival.worlds.world import Action, Observation

MAX_ACTIONS = 12
MAX_EVENTS = 2000  # that one life logs; the newest stay


class Review(Protocol):
    """A second opinion on an action, such as another model's."""

    def __call__(self, action: Action, seen: Observation, /) -> str:
        """Returns why it must not be done; empty: it may."""


@dataclass(slots=True)
class Sentinel:
    """Rules first, then second opinions; everything that it does is in `events`.

    Attributes:
        reviews: More opinions, each of which can block.
    """

    reviews: Sequence[Review] = ()
    events: list[Mapping[str, JSON]] = field(default_factory=list)

    def admit(self, mind: Mind, plan: ActionPlan, seen: Observation) -> ActionPlan:
        """Returns the plan without what must not be done; where nothing is left, a fallback."""
        kept = []
        for action in plan.actions[:MAX_ACTIONS]:
            fault = self.fault(mind, action, seen)
            if fault:
                self.log("blocked", seen.tick, action=str(action), reason=fault)
            else:
                kept.append(action)
        if len(plan.actions) > MAX_ACTIONS:
            self.log("blocked", seen.tick, action="rest of the plan", reason=f"more than {MAX_ACTIONS} actions")
        if not kept:
            fallback = self.fallback(mind, seen)
            self.log("fallback", seen.tick, action=str(fallback), reason="nothing of the plan was allowed")
            return replace(plan, goal=f"fallback instead of {plan.goal}"[:200], actions=(fallback,))
        return replace(plan, actions=tuple(kept))

    def fault(self, mind: Mind, action: Action, seen: Observation) -> str:
        """Says why an action must not be done; empty if it may."""
        if action.name not in mind.world.actions:
            return f"{action.name[:40]!r} is not on the whitelist"
        for review in self.reviews:
            if reason := review(action, seen):
                return reason
        return ""

    def fallback(self, mind: Mind, seen: Observation) -> Action:
        """Returns the safest thing to do."""
        return Action(foresight.evasive(mind, seen)) if mind.world.moves else Action(mind.world.actions[0])

    def listen(self, seen: Observation) -> Observation:
        """Returns an observation whose words give no orders: where they try, they are taken out and logged."""
        looks = [look for look in set(seen.looks.values()) if gives_orders(look)]
        if not looks and not (seen.text and gives_orders(seen.text)):
            return seen
        self.log("warned", seen.tick, reason="the world's words give orders", words=(seen.text or looks[0])[:200])
        harmless = {spot: "scrawl" if gives_orders(look) else look for spot, look in seen.looks.items()}
        return replace(seen, text="(words that give orders were taken out)" if seen.text else "", looks=harmless)

    def log(self, kind: str, tick: int, **facts: JSON) -> None:
        self.events.append({"kind": kind, "tick": tick, **facts})
        del self.events[:-MAX_EVENTS]
