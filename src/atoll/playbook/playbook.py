"""A playbook: what an agent has learnt, bullet by bullet. It never changes; whoever changes it gets another one."""

import functools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from atoll import errors
from atoll.candidate import JSON
from atoll.playbook.bullet import MAX_COUNT, Bullet, counted, make_id, number_of
from atoll.playbook.delta import Delta

type CountTokens = Callable[[str], int]

MAX_HELD = 16  # what waits; the oldest gives way
NONE: Mapping[str, Bullet] = MappingProxyType({})


@functools.lru_cache(maxsize=4_096)
def estimate_tokens(text: str) -> int:
    """Estimates the tokens of a text, rather too many: a token is about four bytes of English, and one more."""
    return (len(text.encode("utf-8", "surrogatepass")) + 3) // 4 + 1


class Held(NamedTuple):
    """A delta that waits, how often it came up, and when last."""

    delta: Delta
    times: int
    turn: int


class Stats(NamedTuple):
    """How large a playbook is, and what covers what.

    Attributes:
        files: Sections, which are the files of the export.
        sections: Dated headings in all of them.
        coverage: Bullets of each section.
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
    """Bullets in the order of their making.

    Attributes:
        bullets: By id.
        turn: The last turn that changed it.
        serial: The last number that a bullet got.
        held: Deltas that wait.
    """

    bullets: Mapping[str, Bullet] = field(default=NONE)
    turn: int = 0
    serial: int = 0
    held: tuple[Held, ...] = ()

    def __len__(self) -> int:
        return len(self.bullets)

    def sections(self) -> Mapping[str, list[Bullet]]:
        """Returns the bullets by section, in the order in which the sections came up."""
        found: dict[str, list[Bullet]] = {}
        for bullet in self.bullets.values():
            found.setdefault(bullet.section, []).append(bullet)
        return found

    def text(self) -> str:
        """Returns it as ACE writes it: `## SECTION`, then a line per bullet."""
        parts = [
            "\n".join([f"## {section.upper()}", *(bullet.line for bullet in bullets)])
            for section, bullets in self.sections().items()
        ]
        return "\n\n".join(parts)

    def num_tokens(self, count: CountTokens = estimate_tokens) -> int:
        """Returns how long `text` is, added up line by line."""
        names = {bullet.section for bullet in self.bullets.values()}
        return sum(count(bullet.line) for bullet in self.bullets.values()) + sum(
            count(f"## {name}\n") for name in names
        )

    def stats(self) -> Stats:
        everything, sections = self.bullets.values(), self.sections()
        return Stats(
            files=len(sections),
            sections=len({(bullet.section, bullet.heading) for bullet in everything}),
            bullets=len(everything),
            characters=sum(len(bullet.content) for bullet in everything),
            tokens=self.num_tokens(),
            helpful=sum(bullet.helpful for bullet in everything),
            harmful=sum(bullet.harmful for bullet in everything),
            held=len(self.held),
            turn=self.turn,
            coverage={name: len(bullets) for name, bullets in sections.items()},
        )

    def at(self, turn: int) -> "Playbook":
        """Returns it at a turn; time never runs backwards."""
        return replace(self, turn=max(self.turn, min(turn, MAX_COUNT)))

    def with_new(self, bullet: Bullet) -> "Playbook":
        """Returns it with one more bullet, under an id of its own."""
        serial = self.serial + 1
        made = replace(bullet, id=make_id(bullet.section, serial))
        return replace(self, bullets=MappingProxyType({**self.bullets, made.id: made}), serial=serial)

    def with_changed(self, *bullets: Bullet) -> "Playbook":
        """Returns it with bullets in the place of those of the same ids."""
        changed = {bullet.id: bullet for bullet in bullets}
        assert changed.keys() <= self.bullets.keys(), "a changed bullet keeps its id"
        return replace(self, bullets=MappingProxyType({**self.bullets, **changed}))

    def without(self, ids: Iterable[str]) -> "Playbook":
        gone = frozenset(ids)
        left = {id: bullet for id, bullet in self.bullets.items() if id not in gone}
        return replace(self, bullets=MappingProxyType(left))

    def holding(self, held: Iterable[Held]) -> "Playbook":
        return replace(self, held=tuple(held)[-MAX_HELD:])

    def to_data(self) -> dict[str, JSON]:
        data: dict[str, JSON] = {"turn": self.turn, "serial": self.serial}
        data["bullets"] = [bullet.to_data() for bullet in self.bullets.values()]
        return data | ({"held": held_data(self.held)} if self.held else {})

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Playbook":
        """Reads what `to_data` returned.

        Raises:
            KeyError, TypeError, ValueError: It is no playbook.
        """
        bullets = [Bullet.from_data(each) for each in data["bullets"]]
        by_id = {bullet.id: bullet for bullet in bullets}
        if len(by_id) < len(bullets):
            raise ValueError("two bullets have the same id")
        serial = max([counted(data.get("serial", 0)), *(number_of(id) or 0 for id in by_id)])
        return cls(MappingProxyType(by_id), counted(data.get("turn", 0)), serial, held_of(data.get("held", ())))

    def dump(self) -> str:
        """Returns it as canonical JSON: equal playbooks give equal text."""
        return json.dumps(self.to_data(), separators=(",", ":"), sort_keys=True)

    @classmethod
    def load(cls, text: str) -> "Playbook":
        """Reads what `dump` returned.

        Raises:
            SetupError: It is no playbook.
        """
        try:
            return cls.from_data(json.loads(text))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise errors.SetupError(f"This is no playbook: {error!s:.200}. Use one that Atoll wrote.") from error


def held_data(held: Iterable[Held]) -> list[JSON]:
    return [{"delta": each.delta.to_data(), "times": each.times, "turn": each.turn} for each in held]


def held_of(data: Iterable[Mapping[str, Any]]) -> tuple[Held, ...]:
    found = (Held(Delta.from_data(each["delta"]), counted(each["times"]), counted(each["turn"])) for each in data)
    return tuple(found)[-MAX_HELD:]
