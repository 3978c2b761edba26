"""Actions that depend on inventory and nearby tiles: experiments and learned recipes."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from atoll import playbook
from atoll.survival.worlds.world import Observation

RECIPE = "{action} with {items} near {near} gives {gain}."
NO_NEIGHBORS, NO_ITEMS = "anything", "nothing"
_RECIPE_PATTERN = re.compile(r"(?P<action>\S+) with (?P<items>.+) near (?P<near>.+) gives (?P<gain>[^.]+)\.")
MAX_FAILURES = 40  # per action


@dataclass(frozen=True, slots=True)
class Recipe:
    """Requirements and gain of an action.

    Attributes:
        items: Consumed items.
        nearby: Tiles that must be adjacent.
    """

    action: str
    items: tuple[tuple[str, int], ...]
    nearby: frozenset[str]
    gain: str

    @property
    def text(self) -> str:
        items = ", ".join(f"{count} {name}" for name, count in self.items) or NO_ITEMS
        nearby = ", ".join(sorted(self.nearby)) or NO_NEIGHBORS
        return RECIPE.format(action=self.action, items=items, near=nearby, gain=self.gain)

    def find_missing(self, inventory: Mapping[str, int]) -> list[str]:
        return [name for name, count in self.items if inventory.get(name, 0) < count]


@dataclass(slots=True)
class RecipeBook:
    """Recipes, and the circumstances of failed attempts.

    An action is worth trying only with more items, or near more tiles, than in every failed attempt.

    Attributes:
        made_tiles: Tiles that actions have created.
        gained_items: Gains of this episode.
        known_items: Items ever held.
        has_unknown_recipes: Whether some actions have no recipe yet and may need more items.
    """

    recipes: dict[str, Recipe] = field(default_factory=dict)
    made_tiles: set[str] = field(default_factory=set)
    gained_items: set[str] = field(default_factory=set)
    has_unknown_recipes: bool = False
    known_items: set[str] = field(default_factory=set)
    _failures: dict[str, list[tuple[dict[str, int], frozenset[str]]]] = field(default_factory=dict)

    def read_bullets(self, bullets: Iterable[playbook.Bullet]) -> None:
        for bullet in bullets:
            if match := _RECIPE_PATTERN.fullmatch(bullet.content):
                items = (
                    [] if match["items"] == NO_ITEMS else [item.partition(" ") for item in match["items"].split(", ")]
                )
                nearby = frozenset() if match["near"] == NO_NEIGHBORS else frozenset(match["near"].split(", "))
                item_counts = tuple((name, int(count)) for count, _, name in items if count.isdigit())
                self.recipes.setdefault(match["action"], Recipe(match["action"], item_counts, nearby, match["gain"]))
                self.made_tiles |= nearby

    def find_nearby(self, observation: Observation) -> frozenset[str]:
        """Returns the adjacent tiles that actions have created."""
        x, y = observation.position
        tiles = {observation.tiles.get((x + dx, y + dy)) for dx in (-1, 0, 1) for dy in (-1, 0, 1)}
        return frozenset(tile for tile in tiles if tile in self.made_tiles)

    def is_promising(self, action: str, observation: Observation, nearby: frozenset[str] | None = None) -> bool:
        """Returns whether an action might work here, or near other tiles."""
        recipe = self.recipes.get(action)
        nearby = self.find_nearby(observation) if nearby is None else nearby
        if recipe is not None and (
            recipe.gain in self.gained_items
            or recipe.find_missing(observation.inventory)
            or not recipe.nearby <= nearby
        ):
            return False
        # without items the faced tile hardly matters
        surroundings = nearby | _get_faced_tile(observation) if observation.inventory else nearby
        return not any(
            surroundings <= failed_surroundings
            and all(failed_inventory.get(name, 0) >= count for name, count in observation.inventory.items())
            for failed_inventory, failed_surroundings in self._failures.get(action, ())
        )

    def learn(self, action: str, before: Observation, after: Observation) -> Recipe | None:
        """Records the result of an action; returns a newly learned recipe."""
        self.gained_items.update(after.gained)
        if not after.gained:
            failures = self._failures.setdefault(action, [])
            failures.append((dict(before.inventory), self.find_nearby(before) | _get_faced_tile(before)))
            del failures[:-MAX_FAILURES]
            return None
        if before.facing and after.tiles.get(before.facing) != before.tiles.get(before.facing):
            self.made_tiles.add(after.tiles.get(before.facing, ""))
        if action in self.recipes:
            return None
        consumed = {name: count - after.inventory.get(name, 0) for name, count in before.inventory.items()}
        items = tuple(sorted((name, count) for name, count in consumed.items() if count > 0))
        nearby = self.find_nearby(before)
        if before.facing:
            nearby -= {after.tiles.get(before.facing, "")}
        gain = next((item for item in after.gained if item == action), after.gained[0])
        self.recipes[action] = Recipe(action, items, frozenset(nearby), gain)
        return self.recipes[action]


def _get_faced_tile(observation: Observation) -> frozenset[str]:
    return frozenset({f"facing {observation.tiles.get(observation.facing, '')}"} if observation.facing else ())
