"""The grid as a registered-style environment of gymnasium, where that is installed (extra `envs`)."""

import importlib
from typing import Any

from atoll import errors
from atoll.survival.grid.body import ACTIONS
from atoll.survival.grid.survivalgrid import SurvivalGrid
from atoll.survival.grid.views import CELL_PIXELS, TILES

TEXT_CHARS = 2000


def as_gymnasium(world: SurvivalGrid) -> Any:
    """Returns a `gymnasium.Env` with spaces that lives in a world.

    Raises:
        MissingExtra: gymnasium is not installed.
    """
    try:
        gymnasium: Any = importlib.import_module("gymnasium")
    except ImportError as error:
        raise errors.MissingExtra("gymnasium is not installed: pip install 'atoll[envs]'.") from error
    spaces = gymnasium.spaces
    side = 2 * world.preset.sight + 1
    pixels = side * CELL_PIXELS
    kinds = {
        "text": lambda: spaces.Text(TEXT_CHARS, charset="".join(map(chr, range(32, 127))) + "\n"),
        "rgb": lambda: spaces.Box(0, 255, (pixels, pixels, 3), "uint8"),
        "symbols": lambda: spaces.Dict(
            {"view": spaces.Box(0, len(TILES) - 1, (side, side), "int8"), "vitals": spaces.Box(0, 1, (5,), "float32")}
        ),
    }

    class Env(gymnasium.Env):  # type: ignore[misc]
        metadata = {"render_modes": ["ansi", "rgb_array"]}  # noqa: RUF012 - as gymnasium has it
        observation_space = kinds[world.observations]()
        action_space = spaces.Discrete(len(ACTIONS))
        render_mode = "rgb_array"

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            return world.reset(seed=seed, options=options)

        def step(self, action: Any) -> Any:
            return tuple(world.step(int(action)))

        def render(self) -> Any:
            return world.render("rgb_array")

    return Env()
