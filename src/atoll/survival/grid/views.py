"""Views of a body: visible tiles, symbols, text and image."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from atoll.survival.grid.body import Body
from atoll.survival.grid.presets import SIGNS
from atoll.survival.grid.terrain import BARE_BUSH, BEAST, BUSH, DRY_POOL, GROUND, POOL, ROCK, SHELTER, Cell, Terrain

UNSEEN_TILE, SELF_TILE = "unseen", "you"
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
