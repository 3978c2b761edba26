"""Safety Sentinel: checks plans and text from the world, blocks actions and provides a fallback plan."""

import functools
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from atoll import identities
from atoll.candidate import JSON
from atoll.survival import risk
from atoll.survival.agent_state import AgentState
from atoll.survival.plan import ActionPlan
from atoll.survival.worlds.world import Action, Observation

MAX_NAME_CHARS = 120
_PLAIN_NAME = re.compile(r"[\w.+-](?:[\w./+-]{0,118}[\w+-])?", re.ASCII)
# Text that addresses the agent.
_INSTRUCTIONS = re.compile(
    r"ignore (?:\w+ ){0,3}(previous|prior|above|earlier)|disregard (all|previous|the above|your)|system prompt"
    r"|forget (?:\w+ ){0,3}(above|before|previous|instructions)|you are now|new instructions|override (your|the)"
    r"|<\|.{0,20}\|>|</?(system|assistant|instructions?)>|rm -rf|sudo\b"
)


@functools.lru_cache(maxsize=4096)
def contains_instructions(text: str) -> bool:
    """Returns whether a text addresses the agent, in any spacing, width, accents or similar letters."""
    if text.isascii():
        return _INSTRUCTIONS.search(" ".join(text.lower().split())) is not None
    chars = (char for char in unicodedata.normalize("NFKD", text) if unicodedata.category(char) not in ("Cf", "Mn"))
    plain_text = " ".join("".join(chars).casefold().split())
    latin_text = plain_text.translate(identities.LOOKALIKES)
    return any(_INSTRUCTIONS.search(variant) is not None for variant in (plain_text, latin_text))


def is_safe_name(name: str) -> bool:
    """Returns whether a file name may appear in a prompt: printable, short and without instructions."""
    spaced = re.sub(r"[\W_]+", " ", name)  # names separate words differently: ignore_all-previous.md
    is_readable = name.isprintable() and len(name) <= MAX_NAME_CHARS
    return is_readable and not contains_instructions(name) and not contains_instructions(spaced)


def quote_name(name: str) -> str:
    """Returns a name for a prompt. Names with unusual characters are quoted and escaped."""
    return name if _PLAIN_NAME.fullmatch(name) else ascii(name)


MAX_ACTIONS = 12
MAX_EVENTS = 2000  # per episode; the oldest are dropped


class ActionReview(Protocol):
    """Additional check of an action, e.g. by another LLM."""

    def __call__(self, action: Action, observation: Observation, /) -> str:
        """Returns why the action is blocked; empty if it is allowed."""


@dataclass(slots=True)
class Sentinel:
    """Applies rules, then reviews. Every intervention is logged in `events`.

    Attributes:
        reviews: Additional checks. Each can block an action.
    """

    reviews: Sequence[ActionReview] = ()
    events: list[Mapping[str, JSON]] = field(default_factory=list)

    def filter_plan(self, agent: AgentState, plan: ActionPlan, observation: Observation) -> ActionPlan:
        """Returns the plan without blocked actions; a fallback if none remains."""
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
            self.log("fallback", observation.tick, action=str(fallback), reason="no action of the plan is allowed")
            return replace(plan, goal=f"fallback instead of {plan.goal}"[:200], actions=(fallback,))
        return replace(plan, actions=tuple(allowed))

    def find_objection(self, agent: AgentState, action: Action, observation: Observation) -> str:
        """Returns why an action is blocked; empty if it is allowed."""
        if action.name not in agent.world.actions:
            return f"{action.name[:40]!r} is not on the whitelist"
        for review in self.reviews:
            if reason := review(action, observation):
                return reason
        return ""

    def choose_fallback(self, agent: AgentState, observation: Observation) -> Action:
        has_moves = bool(agent.world.moves)
        return Action(risk.choose_evasive_action(agent, observation) if has_moves else agent.world.actions[0])

    def sanitize(self, observation: Observation) -> Observation:
        """Returns an observation without texts that contain instructions. Removals are logged."""
        unsafe_tiles = [tile for tile in set(observation.tiles.values()) if contains_instructions(tile)]
        if not unsafe_tiles and not (observation.text and contains_instructions(observation.text)):
            return observation
        words = (observation.text or unsafe_tiles[0])[:200]
        self.log("warned", observation.tick, reason="text from the world contains instructions", words=words)
        tiles = {cell: "scrawl" if tile in unsafe_tiles else tile for cell, tile in observation.tiles.items()}
        text = "(text with instructions was removed)" if observation.text else ""
        return replace(observation, text=text, tiles=tiles)

    def log(self, kind: str, tick: int, **details: JSON) -> None:
        self.events.append({"kind": kind, "tick": tick, **details})
        del self.events[:-MAX_EVENTS]
