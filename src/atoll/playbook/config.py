"""How a playbook is kept."""

import re
from collections.abc import Sequence

import pydantic

# What tries to speak to the model instead of informing it, and what would do harm if somebody obeyed it.
FORBIDDEN: tuple[str, ...] = (
    "ignore previous instructions",
    "ignore all previous",
    "ignore the above",
    "ignore prior instructions",
    "ignore your instructions",
    "disregard previous",
    "disregard the above",
    "disregard all",
    "disregard your instructions",
    "forget previous instructions",
    "forget your instructions",
    "override your instructions",
    "new instructions",
    "system prompt",
    "developer message",
    "you are now",
    "jailbreak",
    "im_start",
    "im_end",
    "begin system",
    "end of playbook",
    "rm rf",
    "sudo rm",
    "api key",
    "password is",
)


class Config(pydantic.BaseModel):
    """What a curator, a store and its retrieval go by.

    Attributes:
        max_tokens: The longest playbook, by estimate; what is worth least goes, or new things wait.
        max_chars: The longest bullet, in characters.
        max_sections: Dated headings that each section keeps; older ones are archived whole, but for those that hold
            protected or net-helpful bullets. The seed's `playbook_max_sections`.
        refine_interval: Turns between two grow-and-refine passes; 0: only when the playbook is full.
        context_limit: Bullets that an agent is given at most. The seed's `playbook_context_limit`.
        context_chars: Characters of each. The seed's `playbook_context_chars`.
        heading_turns: Turns that share a heading.
        protect_turns: How long a new bullet is safe from being retired.
        stale_turns: After so many turns without use a bullet that never helped is retired.
        harmful_margin: A bullet is retired once it did harm so many times more than it helped.
        insist: How often something that contradicts the playbook must come up, each time with evidence, to replace it.
        max_deltas: Changes that one turn may bring; tags do not count.
        forbidden: Words and phrases that no bullet may hold; case, punctuation and width do not matter.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    max_tokens: int = pydantic.Field(default=8_000, ge=50)
    max_chars: int = pydantic.Field(default=500, ge=20, le=20_000)
    max_sections: int = pydantic.Field(default=6, ge=1)
    refine_interval: int = pydantic.Field(default=0, ge=0)
    context_limit: int = pydantic.Field(default=3, ge=0)
    context_chars: int = pydantic.Field(default=400, ge=10)
    heading_turns: int = pydantic.Field(default=50, ge=1)
    protect_turns: int = pydantic.Field(default=20, ge=0)
    stale_turns: int = pydantic.Field(default=2_000, ge=1)
    harmful_margin: int = pydantic.Field(default=2, ge=1)
    insist: int = pydantic.Field(default=3, ge=1)
    max_deltas: int = pydantic.Field(default=8, ge=1)
    forbidden: tuple[str, ...] = FORBIDDEN


def compile_phrases(phrases: Sequence[str]) -> re.Pattern[str] | None:
    """Returns what finds the phrases in a text that `wording.plain` made plain."""
    patterns = [r"\s".join(map(re.escape, re.findall(r"\w+", phrase.casefold()))) for phrase in phrases]
    alternatives = "|".join(pattern for pattern in patterns if pattern)
    return re.compile(rf"\b(?:{alternatives})\b") if alternatives else None
