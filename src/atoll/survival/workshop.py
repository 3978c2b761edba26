"""Deeds that depend on what one holds and what stands near: tried when something new might work, kept as recipes."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from atoll import playbook
from atoll.survival.worlds.world import Observation

RECIPE = "{action} with {items} near {near} gives {gain}."
NOWHERE, EMPTY = "anything", "nothing"
_FORM = re.compile(r"(?P<action>\S+) with (?P<items>.+) near (?P<near>.+) gives (?P<gain>[^.]+)\.")
MAX_FAILS = 40  # remembered per deed


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a deed takes and gives.

    Attributes:
        items: What is used up.
        near: Looks that must stand beside.
    """

    action: str
    items: tuple[tuple[str, int], ...]
    near: frozenset[str]
    gain: str

    @property
    def text(self) -> str:
        items = ", ".join(f"{count} {name}" for name, count in self.items) or EMPTY
        near = ", ".join(sorted(self.near)) or NOWHERE
        return RECIPE.format(action=self.action, items=items, near=near, gain=self.gain)

    def missing(self, held: Mapping[str, int]) -> list[str]:
        return [name for name, count in self.items if held.get(name, 0) < count]


@dataclass(slots=True)
class Workshop:
    """Recipes, and the circumstances in which a deed has failed.

    A deed is worth a try only where nothing that failed held as much and stood as near: more may help, less never does.

    Attributes:
        made: Looks that deeds have put into the world.
        had: What was gained in this life.
        items: What was ever held.
        is_open: Whether there are deeds without a recipe, for which more of something might be needed.
    """

    recipes: dict[str, Recipe] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    had: set[str] = field(default_factory=set)
    is_open: bool = False
    items: set[str] = field(default_factory=set)
    _fails: dict[str, list[tuple[dict[str, int], frozenset[str]]]] = field(default_factory=dict)

    def read(self, bullets: Iterable[playbook.Bullet]) -> None:
        """Believes recipes of the playbook."""
        for bullet in bullets:
            if found := _FORM.fullmatch(bullet.content):
                items = [] if found["items"] == EMPTY else [each.partition(" ") for each in found["items"].split(", ")]
                near = frozenset() if found["near"] == NOWHERE else frozenset(found["near"].split(", "))
                counted = tuple((name, int(count)) for count, _, name in items if count.isdigit())
                self.recipes.setdefault(found["action"], Recipe(found["action"], counted, near, found["gain"]))
                self.made |= near

    def near(self, seen: Observation) -> frozenset[str]:
        """Returns what stands around that deeds have made, and what is faced."""
        x, y = seen.position
        looks = {seen.looks.get((x + dx, y + dy)) for dx in (-1, 0, 1) for dy in (-1, 0, 1)}
        return frozenset(look for look in looks if look in self.made)

    def is_promising(self, action: str, seen: Observation, near: frozenset[str] | None = None) -> bool:
        """Tells whether a deed might work here, or near something else, as far as anybody knows."""
        recipe = self.recipes.get(action)
        near = self.near(seen) if near is None else near
        if recipe is not None and (recipe.gain in self.had or recipe.missing(seen.held) or not recipe.near <= near):
            return False
        here = near | _faced(seen) if seen.held else near  # with empty hands it matters little what is faced
        return not any(
            here <= around and all(held.get(name, 0) >= count for name, count in seen.held.items())
            for held, around in self._fails.get(action, ())
        )

    def learn(self, action: str, before: Observation, after: Observation) -> Recipe | None:
        """Takes in what a deed did; returns a recipe that nobody knew."""
        self.had.update(after.gained)
        if not after.gained:
            fails = self._fails.setdefault(action, [])
            fails.append((dict(before.held), self.near(before) | _faced(before)))
            del fails[:-MAX_FAILS]
            return None
        if before.facing and after.looks.get(before.facing) != before.looks.get(before.facing):
            self.made.add(after.looks.get(before.facing, ""))
        if action in self.recipes:
            return None
        used = {name: count - after.held.get(name, 0) for name, count in before.held.items()}
        items = tuple(sorted((name, count) for name, count in used.items() if count > 0))
        near = self.near(before) - {after.looks.get(before.facing, "")} if before.facing else self.near(before)
        gain = next((each for each in after.gained if each == action), after.gained[0])
        self.recipes[action] = Recipe(action, items, frozenset(near), gain)
        return self.recipes[action]


def _faced(seen: Observation) -> frozenset[str]:
    return frozenset({f"facing {seen.looks.get(seen.facing, '')}"} if seen.facing else ())
