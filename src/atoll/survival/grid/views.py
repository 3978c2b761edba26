"""What a body sees of its world, as symbols, as text, as a picture."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from atoll.survival.grid.body import Body
from atoll.survival.grid.presets import SIGNS
from atoll.survival.grid.terrain import BARE, BEAST, BUSH, DRY, GROUND, POOL, ROCK, SHELTER, Spot, Terrain

UNSEEN, SELF = "unseen", "you"
LOOKS = (UNSEEN, GROUND, ROCK, BUSH, BARE, POOL, DRY, SHELTER, BEAST, *(f"sign {sign}" for sign in SIGNS))
CODES: Mapping[str, int] = {look: code for code, look in enumerate(LOOKS)}
_LETTERS = " .#b,o:HB" + "acxhrs*tw"
_COLOURS = np.array(
    [
        (20, 20, 24),
        (186, 170, 140),
        (90, 84, 80),
        (60, 150, 60),
        (130, 140, 100),
        (60, 120, 220),
        (150, 160, 180),
        (150, 100, 60),
        (160, 30, 30),
        *((110 + 16 * n, 60 + 37 * n % 120, 250 - 25 * n) for n in range(len(SIGNS))),
    ],
    dtype=np.uint8,
)
CELL_PIXELS = 8


def visible(terrain: Terrain, body: Body) -> dict[Spot, str]:
    """Returns how every cell in sight looks; what is out of sight is left out."""
    (x, y), sight = body.spot, terrain.sight
    around = range(-sight, sight + 1)
    return {(x + dx, y + dy): terrain.look((x + dx, y + dy)) for dy in around for dx in around}


def symbols(terrain: Terrain, body: Body) -> dict[str, Any]:
    """Returns codes of the looks around the body, always a square of daylight's sight, and its vital signs."""
    sight, seen = terrain.preset.sight, visible(terrain, body)
    side = range(-sight, sight + 1)
    x, y = body.spot
    view = [[CODES[seen.get((x + dx, y + dy), UNSEEN)] for dx in side] for dy in side]
    vitals = (body.life, body.food, body.water, float(terrain.is_night), body.stuck / 3)
    return {"view": np.array(view, dtype=np.int8), "vitals": np.array(vitals, dtype=np.float32)}


def text(terrain: Terrain, body: Body) -> str:
    """Returns the same in words."""
    sight, seen = terrain.sight, visible(terrain, body)
    x, y = body.spot
    rows = [
        "".join("@" if (dx, dy) == (0, 0) else _LETTERS[CODES[seen[x + dx, y + dy]]] for dx in range(-sight, sight + 1))
        for dy in range(-sight, sight + 1)
    ]
    known = sorted({look for look in seen.values() if look != GROUND})
    legend = ", ".join(f"{_LETTERS[CODES[look]]} {look}" for look in known)
    time = "night" if terrain.is_night else "day"
    vitals = f"life {body.life:.2f}, food {body.food:.2f}, water {body.water:.2f}"
    head = f"Tick {terrain.tick}, {time}, at {x},{y} on {terrain.things.get(body.spot, GROUND)}; {vitals}."
    return "\n".join([head, *rows, f"@ you, {legend}" if legend else "@ you"])


def picture(terrain: Terrain, body: Body) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Returns what is in sight as RGB; darker at night, the body in the middle as a white square."""
    codes = symbols(terrain, body)["view"]
    colours: np.ndarray[Any, np.dtype[np.uint8]] = _COLOURS[codes]
    if terrain.is_night:
        colours = colours // 2
    pixels = colours.repeat(CELL_PIXELS, axis=0).repeat(CELL_PIXELS, axis=1)
    middle, quarter = terrain.preset.sight * CELL_PIXELS, CELL_PIXELS // 4
    inner = slice(middle + quarter, middle + CELL_PIXELS - quarter)
    pixels[inner, inner] = 255
    return pixels
