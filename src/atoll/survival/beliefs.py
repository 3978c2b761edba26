"""Beliefs of an agent: harmful tiles, walls, effects of actions, and recipes of actions that need items."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from atoll import playbook
from atoll.survival.worlds.world import Observation

DEFAULT_DAMAGE = 0.15  # damage assumed for an untried tile
MIN_TRIES = 2  # tries without a gain after which an action counts as useless


@dataclass(slots=True)
class TileStats:
    """Experience with one kind of tile: entries, damage, collisions and cause."""

    entered: float = 0.0
    hurt: float = 0.0
    damage: float = 0.0
    blocked: float = 0.0
    cause: str = ""
    hunts: bool = False

    def mean_damage(self) -> float:
        return self.damage / self.hurt if self.hurt else DEFAULT_DAMAGE


@dataclass(slots=True)
class ActionEffect:
    """Experience with one action at one kind of tile: tries and gains."""

    tries: float = 0.0
    gains: Counter[str] = field(default_factory=Counter)


type ActionKey = tuple[str, str]  # an action, and the tile or circumstances that it applies to

AVOID = "Avoid {look}: it hurts ({cause}, {damage:.2f})."
HARMLESS = "{look} is harmless: step on it freely."
GIVES = "{action} at {look} gives {gain}."
GIVES_NOTHING = "{action} at {look} gives nothing."
BLOCKS = "{look} blocks the way."
HUNTS = "{look} hunts: keep away from it."
REFUGE = "At night {look} keeps harm away: wait there."
DARK = "The dark hurts agents that stay outside: seek a refuge before night."
DAYLIGHT = "Daylight lasts {ticks} ticks."
RENEWS = "{look} turns into {other} again within {ticks} ticks."

_AVOID_PATTERN = r"Avoid (?P<look>.+): it hurts \((?P<cause>[^,]+), (?P<damage>[0-9]{1,4}(?:[.][0-9]{1,9})?)\)\."
_PATTERNS: Sequence[tuple[str, re.Pattern[str]]] = [
    ("avoid", re.compile(_AVOID_PATTERN)),
    ("harmless", re.compile(r"(?P<look>.+) is harmless: step on it freely\.")),
    ("nothing", re.compile(r"(?P<action>\S+) at (?P<look>.+) gives nothing\.")),
    ("gives", re.compile(r"(?P<action>\S+) at (?P<look>.+) gives (?P<gain>[^.]+)\.")),
    ("blocks", re.compile(r"(?P<look>.+) blocks the way\.")),
    ("hunts", re.compile(r"(?P<look>.+) hunts: keep away from it\.")),
    ("refuge", re.compile(r"At night (?P<look>.+) keeps harm away: wait there\.")),
    ("dark", re.compile(r"The dark hurts [\w ]+ outside: seek a refuge before night\.")),  # 0.1.0: other subject
    ("daylight", re.compile(r"Daylight lasts (?P<ticks>[1-9][0-9]{0,8}) ticks\.")),
    ("renews", re.compile(r"(?P<look>.+) turns into (?P<other>.+) again within (?P<ticks>[1-9][0-9]{0,8}) ticks\.")),
]


@dataclass(slots=True)
class Beliefs:
    """Beliefs from the playbook and from this episode.

    Attributes:
        tile_stats: By tile.
        effects: By action and tile.
        refuges: Tiles that are safe at night, with the number of observations.
        dark_harm_ticks, dark_ticks: Ticks of darkness outside a refuge, with damage and in all.
        daylight: Ticks of light per day, known after one full day.
        renewals: By tile, the tile that replaces it and the ticks until then.
        bullet_ids: Ids of the bullets about each tile or action.
    """

    tile_stats: dict[str, TileStats] = field(default_factory=dict)
    effects: dict[ActionKey, ActionEffect] = field(default_factory=dict)
    refuges: Counter[str] = field(default_factory=Counter)
    dark_harm_ticks: float = 0.0
    dark_ticks: float = 0.0
    daylight: int | None = None
    renewals: dict[str, tuple[str, int]] = field(default_factory=dict)
    bullet_ids: dict[str, set[str]] = field(default_factory=dict)
    _read_ids: set[str] = field(default_factory=set)

    def get_tile_stats(self, tile: str) -> TileStats:
        if tile not in self.tile_stats:
            self.tile_stats[tile] = TileStats()
        return self.tile_stats[tile]

    def get_effect(self, action: str, tile: str) -> ActionEffect:
        if (action, tile) not in self.effects:
            self.effects[action, tile] = ActionEffect()
        return self.effects[action, tile]

    def read_bullets(self, bullets: Iterable[playbook.Bullet]) -> None:
        """Adds the beliefs of bullets. Bullets that helped more often count more. Each is read once per episode."""
        for bullet in bullets:
            if bullet.id not in self._read_ids:
                self._read_ids.add(bullet.id)
                self._apply_bullet(bullet)

    def _apply_bullet(self, bullet: playbook.Bullet) -> None:
        for name, pattern in _PATTERNS:
            parsed = pattern.fullmatch(bullet.content)
            if parsed is None:
                continue
            groups = parsed.groupdict()
            self.bullet_ids.setdefault(groups.get("look") or name, set()).add(bullet.id)
            support, doubt = 1.0 + min(bullet.helpful, 20), float(min(bullet.harmful, 20))
            match name:
                case "avoid":
                    stats = self.get_tile_stats(groups["look"])
                    stats.entered, stats.hurt = stats.entered + support + doubt, stats.hurt + support
                    stats.damage, stats.cause = stats.damage + support * float(groups["damage"]), groups["cause"]
                case "harmless":
                    stats = self.get_tile_stats(groups["look"])
                    stats.entered, stats.hurt = stats.entered + support + doubt, stats.hurt + doubt
                case "gives":
                    effect = self.get_effect(groups["action"], groups["look"])
                    effect.tries += support + doubt
                    effect.gains[groups["gain"]] += int(support)
                case "nothing":
                    self.get_effect(groups["action"], groups["look"]).tries += MIN_TRIES * support
                case "blocks":
                    self.get_tile_stats(groups["look"]).blocked += support
                case "hunts":
                    self.get_tile_stats(groups["look"]).hunts = True
                case "refuge":
                    self.refuges[groups["look"]] += int(support)
                case "dark":
                    self.dark_harm_ticks += 5 * support
                    self.dark_ticks += 5 * (support + doubt)
                case "daylight":
                    self.daylight = int(groups["ticks"])
                case "renews":
                    self.renewals[groups["look"]] = (groups["other"], int(groups["ticks"]))
            return

    def get_risk(self, tile: str, prior: float) -> float:
        """Returns the probability that entering a tile hurts; `prior` for an untried tile."""
        stats = self.tile_stats.get(tile)
        if stats is None:
            return prior
        return (stats.hurt + prior) / (stats.entered + 1.0)

    def is_wall(self, tile: str) -> bool:
        stats = self.tile_stats.get(tile)
        return stats is not None and stats.blocked > stats.entered

    def find_sources(self, gain: str) -> list[tuple[str, str, float]]:
        """Returns (action, tile, success rate) of each known source of a gain."""
        sources = []
        for (action, tile), effect in self.effects.items():
            if effect.gains[gain] and effect.tries:
                sources.append((action, tile, min(1.0, effect.gains[gain] / effect.tries)))
        return sources

    def is_dark_harmful(self) -> bool:
        return self.dark_harm_ticks >= 2 and self.dark_harm_ticks > 0.5 * self.dark_ticks

    def list_feared(self, prior: float, threshold: float = 0.5) -> list[str]:
        """Returns the tiles that probably hurt."""
        return [
            tile for tile, stats in self.tile_stats.items() if stats.hurt and self.get_risk(tile, prior) >= threshold
        ]


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
