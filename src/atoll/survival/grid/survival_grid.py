"""The grid environment with the gymnasium interface. It works without gymnasium."""

import importlib
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from atoll import errors
from atoll.survival.grid.body import ACTIONS, CELL_PIXELS, TILES, Body, encode_symbols, render_rgb, render_text
from atoll.survival.grid.terrain import SHELTER, Terrain, get_preset, make_terrain

type ObservationKind = Literal["text", "symbols", "rgb"]

ALIVE_REWARD, MEAL_REWARD, SHELTER_REWARD, DEATH_PENALTY = 0.01, 0.1, 0.01, 1.0


class StepResult(NamedTuple):
    """Return value of `step`, as in gymnasium."""

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class SurvivalGrid:
    """World with metabolism, hazards behind signs, fog, day and night. Waiting is fatal.

    The reward of a tick is small for staying alive and for shelter at night, and larger for a needed meal or drink.
    Lost life and 1 for death are subtracted.

    Args:
        preset: Name in `terrain.PRESETS`.
        family: Seed for the meaning of signs, shared by the worlds of a family.
        observations: Format of observations: `text`, `symbols` (arrays) or `rgb`.
    """

    metadata: Mapping[str, Any] = {"render_modes": ["ansi", "rgb_array"]}
    actions = ACTIONS

    def __init__(self, preset: str = "meadow", family: int = 0, observations: ObservationKind = "symbols") -> None:
        self.preset, self.family, self.observations = get_preset(preset), family, observations
        if observations not in ("text", "symbols", "rgb"):
            raise errors.SetupError(f"Unknown observations {observations!r}. Use text, symbols or rgb.")
        self.terrain = make_terrain(self.preset, 0, family)
        self.body = Body(self.terrain.starts[0])

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode in the world of a seed; the default seed is 0."""
        self.begin(seed or 0)
        return self.observe(), self.info()

    def begin(self, seed: int) -> None:
        """Starts an episode without returning an observation."""
        self.terrain = make_terrain(self.preset, seed, self.family)
        self.body = Body(self.terrain.starts[0])

    def step(self, action: int) -> StepResult:
        """Executes an action and advances one tick.

        Raises:
            SetupError: Unknown action, or the episode is over.
        """
        if not 0 <= action < len(ACTIONS):
            raise errors.SetupError(f"Unknown action {action}. Use 0 to {len(ACTIONS) - 1}.")
        reward = self.advance(ACTIONS[action])
        is_over = not self.body.is_alive
        return StepResult(self.observe(), reward, is_over, self._is_time_up() and not is_over, self.info())

    def advance(self, action: str) -> float:
        """Executes an action by name, advances one tick and returns the reward.

        Raises:
            SetupError: The episode is over.
        """
        body, terrain = self.body, self.terrain
        if not body.is_alive:
            raise errors.SetupError("The episode is over. Call reset() first.")
        levels_before = (body.food, body.water)
        body.act(terrain, action)
        terrain.pass_time([body.cell])
        if body.is_alive:
            body.apply_tick(terrain)
        return compute_reward(terrain, body, levels_before)

    def _is_time_up(self) -> bool:
        return self.terrain.tick >= self.preset.max_ticks

    def observe(self) -> Any:
        match self.observations:
            case "text":
                return render_text(self.terrain, self.body)
            case "rgb":
                return render_rgb(self.terrain, self.body)
            case _:
                return encode_symbols(self.terrain, self.body)

    def info(self) -> dict[str, Any]:
        body = self.body
        data = {"tick": self.terrain.tick, "position": body.cell, "life": body.life, "food": body.food}
        data |= {"water": body.water, "is_night": self.terrain.is_night, "harm": dict(body.harm)}
        return {**data, "gained": body.gained, "cause": body.cause}

    def render(self, mode: str = "ansi") -> Any:
        render = render_text if mode == "ansi" else render_rgb
        return render(self.terrain, self.body)

    def close(self) -> None:
        """Does nothing; required by gymnasium."""


def compute_reward(terrain: Terrain, body: Body, levels_before: tuple[float, float]) -> float:
    """Returns the reward of a tick for a body with food and water `levels_before` it."""
    reward = ALIVE_REWARD - sum(body.harm.values())
    if body.gained is not None:
        reward += MEAL_REWARD * (1.0 - levels_before[body.gained == "water"])
    if terrain.is_night and terrain.things.get(body.cell) == SHELTER:
        reward += SHELTER_REWARD
    return reward - (DEATH_PENALTY if not body.is_alive else 0.0)


TEXT_CHARS = 2000


def as_gymnasium(world: SurvivalGrid) -> Any:
    """Returns a world as a `gymnasium.Env` with spaces.

    Raises:
        MissingExtra: gymnasium is not installed.
    """
    try:
        gymnasium: Any = importlib.import_module("gymnasium")
    except ImportError as error:
        raise errors.MissingExtra("gymnasium is not installed. Run: pip install 'atoll[envs]'.") from error
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
