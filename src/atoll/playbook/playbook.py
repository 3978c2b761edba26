"""Playbook: an immutable collection of bullets, and its settings. Every change returns a new playbook."""

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import pydantic

from atoll import errors
from atoll.candidate import JSON
from atoll.playbook.bullet import MAX_COUNT, Bullet, clamp_count, make_id, parse_serial
from atoll.playbook.delta import Delta

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
    """Returns a pattern that finds the phrases in the result of `meaning.normalize_words`."""
    patterns = [r"\s".join(map(re.escape, re.findall(r"\w+", phrase.casefold()))) for phrase in phrases]
    alternatives = "|".join(pattern for pattern in patterns if pattern)
    return re.compile(rf"\b(?:{alternatives})\b") if alternatives else None


type CountTokens = Callable[[str], int]

MAX_HELD = 16  # held deltas; the oldest is dropped
NO_BULLETS: Mapping[str, Bullet] = MappingProxyType({})


@functools.lru_cache(maxsize=4_096)
def estimate_tokens(text: str) -> int:
    """Estimates tokens at four bytes each, rounded up, plus one."""
    return (len(text.encode("utf-8", "surrogatepass")) + 3) // 4 + 1


class HeldEntry(NamedTuple):
    """A held delta, the number of turns that proposed it, and the last of them."""

    delta: Delta
    times: int
    turn: int


class Stats(NamedTuple):
    """Size and coverage of a playbook.

    Attributes:
        files: Number of sections; each is a file of the export.
        sections: Number of dated headings in all sections.
        coverage: Number of bullets by section.
    """

    files: int
    sections: int
    bullets: int
    characters: int
    tokens: int
    helpful: int
    harmful: int
    held: int
    turn: int
    coverage: Mapping[str, int]

    def to_data(self) -> dict[str, JSON]:
        return self._asdict() | {"coverage": dict(self.coverage)}


@dataclass(frozen=True, slots=True)
class Playbook:
    """Bullets in the order of creation.

    Attributes:
        bullets: Bullets by id.
        turn: Last turn that changed the playbook.
        serial: Last serial number used in an id.
        held: Held deltas, oldest first.
    """

    bullets: Mapping[str, Bullet] = field(default=NO_BULLETS)
    turn: int = 0
    serial: int = 0
    held: tuple[HeldEntry, ...] = ()

    def __len__(self) -> int:
        return len(self.bullets)

    def sections(self) -> Mapping[str, list[Bullet]]:
        """Returns the bullets by section, sections in order of their first bullet."""
        by_section: dict[str, list[Bullet]] = {}
        for bullet in self.bullets.values():
            by_section.setdefault(bullet.section, []).append(bullet)
        return by_section

    def to_text(self) -> str:
        """Returns the text format of ACE: `## SECTION`, then one line per bullet."""
        sections = self.sections().items()
        return "\n\n".join(
            "\n".join([f"## {name.upper()}", *(item.line for item in items)]) for name, items in sections
        )

    def count_tokens(self, count: CountTokens = estimate_tokens) -> int:
        """Returns the tokens of the text, summed over its lines."""
        names = {bullet.section for bullet in self.bullets.values()}
        lines = [bullet.line for bullet in self.bullets.values()]
        return sum(map(count, [*lines, *(f"## {name}\n" for name in names)]))

    def stats(self) -> Stats:
        all_bullets, sections = self.bullets.values(), self.sections()
        return Stats(
            files=len(sections),
            sections=len({(bullet.section, bullet.heading) for bullet in all_bullets}),
            bullets=len(all_bullets),
            characters=sum(len(bullet.content) for bullet in all_bullets),
            tokens=self.count_tokens(),
            helpful=sum(bullet.helpful for bullet in all_bullets),
            harmful=sum(bullet.harmful for bullet in all_bullets),
            held=len(self.held),
            turn=self.turn,
            coverage={name: len(bullets) for name, bullets in sections.items()},
        )

    def with_turn(self, turn: int) -> "Playbook":
        """Returns a copy at this turn, or at the current one if that is later."""
        return replace(self, turn=max(self.turn, min(turn, MAX_COUNT)))

    def with_added(self, bullet: Bullet) -> "Playbook":
        """Returns a copy with another bullet, which gets a new id."""
        serial = self.serial + 1
        added = replace(bullet, id=make_id(bullet.section, serial))
        return replace(self, bullets=MappingProxyType({**self.bullets, added.id: added}), serial=serial)

    def with_changed(self, *bullets: Bullet) -> "Playbook":
        """Returns a copy in which these bullets replace those with the same ids."""
        changed = {bullet.id: bullet for bullet in bullets}
        assert changed.keys() <= self.bullets.keys(), "a changed bullet keeps its id"
        return replace(self, bullets=MappingProxyType({**self.bullets, **changed}))

    def without(self, ids: Iterable[str]) -> "Playbook":
        removed_ids = frozenset(ids)
        remaining = {id: bullet for id, bullet in self.bullets.items() if id not in removed_ids}
        return replace(self, bullets=MappingProxyType(remaining))

    def with_held(self, held: Iterable[HeldEntry]) -> "Playbook":
        return replace(self, held=tuple(held)[-MAX_HELD:])

    def to_data(self) -> dict[str, JSON]:
        data: dict[str, JSON] = {"turn": self.turn, "serial": self.serial}
        data["bullets"] = [bullet.to_data() for bullet in self.bullets.values()]
        return data | ({"held": held_to_data(self.held)} if self.held else {})

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Playbook":
        """Creates a playbook from the result of `to_data`.

        Raises:
            KeyError, TypeError, ValueError: The data is not a playbook.
        """
        bullets = [Bullet.from_data(item) for item in data["bullets"]]
        by_id = {bullet.id: bullet for bullet in bullets}
        if len(by_id) < len(bullets):
            raise ValueError("two bullets have the same id")
        serial = max([clamp_count(data.get("serial", 0)), *(parse_serial(id) or 0 for id in by_id)])
        turn, held = clamp_count(data.get("turn", 0)), held_from_data(data.get("held", ()))
        return cls(MappingProxyType(by_id), turn, serial, held)

    def dump(self) -> str:
        """Returns canonical JSON. Equal playbooks give equal text."""
        return json.dumps(self.to_data(), separators=(",", ":"), sort_keys=True)

    @classmethod
    def load(cls, text: str) -> "Playbook":
        """Parses the result of `dump`.

        Raises:
            SetupError: The text is not a playbook.
        """
        try:
            return cls.from_data(json.loads(text))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise errors.SetupError(f"The text is not a playbook: {error!s:.200}. Use one that Atoll wrote.") from error


def held_to_data(held: Iterable[HeldEntry]) -> list[JSON]:
    return [{"delta": entry.delta.to_data(), "times": entry.times, "turn": entry.turn} for entry in held]


def held_from_data(data: Iterable[Mapping[str, Any]]) -> tuple[HeldEntry, ...]:
    fields = ((item["delta"], clamp_count(item["times"]), clamp_count(item["turn"])) for item in data)
    return tuple(HeldEntry(Delta.from_data(delta), times, turn) for delta, times, turn in fields)[-MAX_HELD:]
