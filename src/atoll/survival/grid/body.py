"""Body of an agent in a grid world: life, food and water, effects of a tick, and its views of the world."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from atoll.survival.grid.terrain import (
    BARE_BUSH,
    BEAST,
    BUSH,
    DRY_POOL,
    GAS,
    GROUND,
    LAVA,
    MOVES,
    NO_HAZARD,
    PIT,
    POOL,
    ROCK,
    SHELTER,
    SIGNS,
    THORNS,
    Cell,
    Terrain,
)

ACTIONS = ("wait", "north", "east", "south", "west", "gather")
HAZARD_DAMAGE: Mapping[str, float] = {LAVA: 0.35, PIT: 0.2, GAS: 0.12, THORNS: 0.08}
BEAST_DAMAGE, STARVATION_DAMAGE, HEAL_RATE = 0.2, 0.05, 0.02
PIT_TICKS = 3
DRINK_AMOUNT = 0.6
MIN_HEAL_LEVEL = 0.3  # life recovers with more food and water than this


@dataclass(slots=True)
class Body:
    """Body in a terrain.

    Attributes:
        stuck: Ticks that it remains in a pit.
        harm: Life lost in the last tick, by cause.
        gained: Gain of the last tick, `food` or `water`.
    """

    cell: Cell
    life: float = 1.0
    food: float = 1.0
    water: float = 1.0
    stuck: int = 0
    harm: dict[str, float] = field(default_factory=dict)
    gained: str | None = None
    cause: str | None = None

    @property
    def is_alive(self) -> bool:
        return self.life > 0

    def act(self, terrain: Terrain, action: str) -> None:
        """Moves or gathers, and applies the effect of the new cell."""
        self.harm, self.gained = {}, None
        has_entered = False
        if self.stuck:
            self.stuck -= 1
        elif action in MOVES:
            dx, dy = MOVES[action]
            target = (self.cell[0] + dx, self.cell[1] + dy)
            has_entered = terrain.is_open(target)
            self.cell = target if has_entered else self.cell
        elif action == "gather":
            self._gather(terrain)
        hazard = terrain.get_hazard(self.cell)
        if hazard == PIT and has_entered:
            self.stuck = PIT_TICKS
        if hazard != NO_HAZARD and (hazard != PIT or has_entered):
            self._damage(hazard, HAZARD_DAMAGE[hazard])

    def _gather(self, terrain: Terrain) -> None:
        self.gained = terrain.gather(self.cell)
        if self.gained == "food":
            self.food = min(1.0, self.food + terrain.preset.meal)
        elif self.gained == "water":
            self.water = min(1.0, self.water + DRINK_AMOUNT)

    def apply_tick(self, terrain: Terrain) -> None:
        """Applies one tick of metabolism, beasts and cold, after the tick of the terrain."""
        preset = terrain.preset
        is_sheltered = terrain.things.get(self.cell) == SHELTER
        if self.cell in terrain.beasts:
            self._damage("beast", BEAST_DAMAGE)
        if terrain.is_night and not is_sheltered:
            self._damage("cold", preset.cold)
        self.food, self.water = max(0.0, self.food - preset.hunger), max(0.0, self.water - preset.thirst)
        if self.food == 0:
            self._damage("hunger", STARVATION_DAMAGE)
        if self.water == 0:
            self._damage("thirst", STARVATION_DAMAGE)
        if self.is_alive and not self.harm and min(self.food, self.water) > MIN_HEAL_LEVEL:
            self.life = min(1.0, self.life + HEAL_RATE * (2 if is_sheltered else 1))

    def _damage(self, cause: str, amount: float) -> None:
        if self.life > 0:
            self.harm[cause] = self.harm.get(cause, 0.0) + amount
            self.life -= amount
            if self.life <= 1e-9:
                self.life, self.cause = 0.0, cause


UNSEEN_TILE = "unseen"
_PLAIN_TILES = (UNSEEN_TILE, GROUND, ROCK, BUSH, BARE_BUSH, POOL, DRY_POOL, SHELTER, BEAST)
TILES = (*_PLAIN_TILES, *(f"sign {sign}" for sign in SIGNS))
TILE_CODES: Mapping[str, int] = {tile: code for code, tile in enumerate(TILES)}
_TILE_LETTERS = " .#b,o:HB" + "acxhrs*tw"
_PLAIN_COLORS = "141418 baaa8c 5a5450 3c963c 828c64 3c78dc 96a0b4 96643c a01e1e"  # of _PLAIN_TILES
_SIGN_COLORS = [(110 + 16 * n, 60 + 37 * n % 120, 250 - 25 * n) for n in range(len(SIGNS))]
_COLORS = np.array([*(tuple(bytes.fromhex(color)) for color in _PLAIN_COLORS.split()), *_SIGN_COLORS], dtype=np.uint8)
CELL_PIXELS = 8


def get_visible_tiles(terrain: Terrain, body: Body) -> dict[Cell, str]:
    """Returns the tile of every visible cell."""
    (x, y), sight = body.cell, terrain.sight
    offsets = range(-sight, sight + 1)
    return {(x + dx, y + dy): terrain.get_tile((x + dx, y + dy)) for dy in offsets for dx in offsets}


def encode_symbols(terrain: Terrain, body: Body) -> dict[str, Any]:
    """Returns tile codes around the body, a square of the daylight viewing distance, and its vital signs."""
    sight, tiles = terrain.preset.sight, get_visible_tiles(terrain, body)
    offsets = range(-sight, sight + 1)
    x, y = body.cell
    view = [[TILE_CODES[tiles.get((x + dx, y + dy), UNSEEN_TILE)] for dx in offsets] for dy in offsets]
    vitals = (body.life, body.food, body.water, float(terrain.is_night), body.stuck / 3)
    return {"view": np.array(view, dtype=np.int8), "vitals": np.array(vitals, dtype=np.float32)}


def render_text(terrain: Terrain, body: Body) -> str:
    sight, tiles = terrain.sight, get_visible_tiles(terrain, body)
    x, y = body.cell
    rows = [
        "".join(
            "@" if (dx, dy) == (0, 0) else _TILE_LETTERS[TILE_CODES[tiles[x + dx, y + dy]]]
            for dx in range(-sight, sight + 1)
        )
        for dy in range(-sight, sight + 1)
    ]
    legend_tiles = sorted({tile for tile in tiles.values() if tile != GROUND})
    legend = ", ".join(f"{_TILE_LETTERS[TILE_CODES[tile]]} {tile}" for tile in legend_tiles)
    time = "night" if terrain.is_night else "day"
    vitals = f"life {body.life:.2f}, food {body.food:.2f}, water {body.water:.2f}"
    header = f"Tick {terrain.tick}, {time}, at {x},{y} on {terrain.things.get(body.cell, GROUND)}; {vitals}."
    return "\n".join([header, *rows, f"@ you, {legend}" if legend else "@ you"])


def render_rgb(terrain: Terrain, body: Body) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Returns the view as an RGB image: the body is a white square in the center, nights are darker."""
    codes = encode_symbols(terrain, body)["view"]
    colors: np.ndarray[Any, np.dtype[np.uint8]] = _COLORS[codes]
    if terrain.is_night:
        colors = colors // 2
    pixels = colors.repeat(CELL_PIXELS, axis=0).repeat(CELL_PIXELS, axis=1)
    center, quarter = terrain.preset.sight * CELL_PIXELS, CELL_PIXELS // 4
    inner = slice(center + quarter, center + CELL_PIXELS - quarter)
    pixels[inner, inner] = 255
    return pixels
