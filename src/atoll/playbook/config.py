"""Settings of a playbook."""

import re
from collections.abc import Sequence

import pydantic

# Instructions to the LLM instead of information, and commands that do harm when followed.
_FORBIDDEN_TEXT = """\
ignore previous instructions, ignore all previous, ignore the above, ignore prior instructions,
ignore your instructions, disregard previous, disregard the above, disregard all, disregard your instructions,
forget previous instructions, forget your instructions, override your instructions, new instructions,
system prompt, developer message, you are now, jailbreak, im_start, im_end, begin system, end of playbook,
rm rf, sudo rm, api key, password is"""
FORBIDDEN = tuple(re.split(r",\s+", _FORBIDDEN_TEXT))


class Config(pydantic.BaseModel):
    """Settings of a curator, a store and retrieval.

    Attributes:
        max_tokens: Maximum size of the playbook in estimated tokens. When it is full, the least valuable bullets are
            retired or new deltas are held.
        max_chars: Maximum length of a bullet in characters.
        max_sections: Dated headings kept in each section. Older headings are archived unless they have protected or
            net-helpful bullets. The seed's `playbook_max_sections`.
        refine_interval: Turns between two grow-and-refine passes; 0 disables them.
        context_limit: Maximum number of bullets retrieved. The seed's `playbook_context_limit`.
        context_chars: Maximum characters of each. The seed's `playbook_context_chars`.
        heading_turns: Turns that share a heading.
        protect_turns: Turns in which a new bullet is not retired.
        stale_turns: Turns without use after which a bullet that never helped is retired.
        harmful_margin: Retire a bullet when harmful minus helpful reaches this number.
        insist: Turns in which a held delta must be proposed, each time with evidence, to be applied.
        max_deltas: Maximum changes in one turn; tags do not count.
        forbidden: Phrases that no bullet may contain. Case, punctuation and character width are ignored.
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
    """Returns a pattern that finds the phrases in the result of `terms.normalize_words`."""
    patterns = [r"\s".join(map(re.escape, re.findall(r"\w+", phrase.casefold()))) for phrase in phrases]
    alternatives = "|".join(pattern for pattern in patterns if pattern)
    return re.compile(rf"\b(?:{alternatives})\b") if alternatives else None
