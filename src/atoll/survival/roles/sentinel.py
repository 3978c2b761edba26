"""Safety Sentinel: looks at plans before and at words before anybody; blocks, warns, and offers a fallback."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from atoll.candidate import JSON
from atoll.survival import risk
from atoll.survival.agent_state import AgentState
from atoll.survival.plan import ActionPlan
from atoll.survival.untrusted_text import contains_instructions
from atoll.survival.worlds.world import Action, Observation

MAX_ACTIONS = 12
MAX_EVENTS = 2000  # that one life logs; the newest stay


class ActionReview(Protocol):
    """A second opinion on an action, such as another model's."""

    def __call__(self, action: Action, observation: Observation, /) -> str:
        """Returns why it must not be done; empty: it may."""


@dataclass(slots=True)
class Sentinel:
    """Rules first, then second opinions; everything that it does is in `events`.

    Attributes:
        reviews: More opinions, each of which can block.
    """

    reviews: Sequence[ActionReview] = ()
    events: list[Mapping[str, JSON]] = field(default_factory=list)

    def filter_plan(self, agent: AgentState, plan: ActionPlan, observation: Observation) -> ActionPlan:
        """Returns the plan without what must not be done; where nothing is left, a fallback."""
        allowed = []
        for action in plan.actions[:MAX_ACTIONS]:
            objection = self.find_objection(agent, action, observation)
            if objection:
                self.log("blocked", observation.tick, action=str(action), reason=objection)
            else:
                allowed.append(action)
        if len(plan.actions) > MAX_ACTIONS:
            self.log("blocked", observation.tick, action="rest of the plan", reason=f"more than {MAX_ACTIONS} actions")
        if not allowed:
            fallback = self.choose_fallback(agent, observation)
            self.log("fallback", observation.tick, action=str(fallback), reason="nothing of the plan was allowed")
            return replace(plan, goal=f"fallback instead of {plan.goal}"[:200], actions=(fallback,))
        return replace(plan, actions=tuple(allowed))

    def find_objection(self, agent: AgentState, action: Action, observation: Observation) -> str:
        """Says why an action must not be done; empty if it may."""
        if action.name not in agent.world.actions:
            return f"{action.name[:40]!r} is not on the whitelist"
        for review in self.reviews:
            if reason := review(action, observation):
                return reason
        return ""

    def choose_fallback(self, agent: AgentState, observation: Observation) -> Action:
        """Returns the safest thing to do."""
        return (
            Action(risk.choose_evasive_action(agent, observation))
            if agent.world.moves
            else Action(agent.world.actions[0])
        )

    def sanitize(self, observation: Observation) -> Observation:
        """Returns an observation whose words give no orders: where they try, they are taken out and logged."""
        unsafe_tiles = [tile for tile in set(observation.tiles.values()) if contains_instructions(tile)]
        if not unsafe_tiles and not (observation.text and contains_instructions(observation.text)):
            return observation
        self.log(
            "warned",
            observation.tick,
            reason="the world's words give orders",
            words=(observation.text or unsafe_tiles[0])[:200],
        )
        safe_tiles = {
            cell: "scrawl" if contains_instructions(tile) else tile for cell, tile in observation.tiles.items()
        }
        return replace(
            observation, text="(words that give orders were taken out)" if observation.text else "", tiles=safe_tiles
        )

    def log(self, kind: str, tick: int, **details: JSON) -> None:
        self.events.append({"kind": kind, "tick": tick, **details})
        del self.events[:-MAX_EVENTS]
