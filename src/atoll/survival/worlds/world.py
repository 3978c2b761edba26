"""Interface of worlds: observations and a whitelist of actions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from atoll import errors
from atoll.candidate import EMPTY, JSON
from atoll.sandbox import missing_modules, module_loader

type Cell = tuple[int, int]

REACH_HERE, REACH_FACING = "here", "facing"  # cell that an action applies to


@dataclass(frozen=True, slots=True)
class Action:
    """One action.

    Attributes:
        name: Name from the world's `actions`.
        target: Path or command, if the action needs one.
        text: Text to write to the target.
    """

    name: str
    target: str = ""
    text: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.target}".strip()


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything an agent perceives after a reset or an action.

    Attributes:
        life: 0 to 1; 0 is death.
        resources: Levels from 0 to 1 by name; an empty resource costs life.
        tiles: Visible tile of each cell, never its meaning.
        current_tile: Tile under the agent.
        facing: Cell in front of the agent, if the world has directions.
        is_dark: Whether it is night.
        harm: Life lost in the last action and tick, by perceived cause.
        gained: Gains of the last action, by name.
        inventory: Items that the agent carries.
        unlocked: Achievements reached for the first time in this episode.
        reward: Reward of the world.
        text: Untrusted text from the world.
        refused: Why the world refused the action; empty if it did not.
        cause: Cause of death; None while alive.
    """

    tick: int
    position: Cell
    life: float
    resources: Mapping[str, float]
    tiles: Mapping[Cell, str] = field(default_factory=dict)
    current_tile: str = ""
    facing: Cell | None = None
    is_dark: bool = False
    harm: Mapping[str, float] = EMPTY
    gained: Sequence[str] = ()
    inventory: Mapping[str, int] = EMPTY
    unlocked: Sequence[str] = ()
    reward: float = 0.0
    text: str = ""
    refused: str = ""
    is_over: bool = False
    cause: str | None = None

    @property
    def is_alive(self) -> bool:
        return self.cause is None

    def to_data(self) -> dict[str, JSON]:
        """Returns the JSON form, without the view."""
        return {
            "position": list(self.position),
            "life": round(self.life, 4),
            "resources": {name: round(level, 4) for name, level in self.resources.items()},
            "here": self.current_tile,
            "is_dark": self.is_dark,
            "harm": {name: round(amount, 4) for name, amount in self.harm.items()},
            **({"held": dict(self.inventory)} if self.inventory else {}),
        }


class WorldGuide(NamedTuple):
    """Explanation of a world for an LLM.

    Attributes:
        goal: What the agent is to achieve.
        rewards: When it is rewarded.
        action_help: What each action does, by name.
    """

    goal: str = "Stay alive as long as possible."
    rewards: str = "The world gives a reward after each action. Losing life is bad, death is worst."
    action_help: Mapping[str, str] = EMPTY


class World(Protocol):
    """Environment of an agent. A world may also have a `guide`, a `WorldGuide` for LLMs.

    Attributes:
        name: Display name.
        actions: Whitelist of actions.
        moves: Offset of each move.
        reach: Cell that other actions apply to: under the agent (`here`) or in front of it (`facing`).
        things: Actions that apply to a tile. The others depend on inventory and adjacent tiles.
        patience: Tries without a gain before an action at a tile counts as useless.
        num_cells: Number of cells; 0 without a map.
        is_scored_by_reward: Whether the score is the reward instead of the ticks.
    """

    name: str
    actions: Sequence[str]
    moves: Mapping[str, Cell]
    reach: str
    things: Sequence[str]
    patience: int
    num_cells: int
    is_scored_by_reward: bool

    def reset(self, seed: int) -> Observation:
        """Starts an episode."""

    def act(self, action: Action) -> Observation:
        """Executes one action. An impossible action returns an observation with `refused`."""

    def candidates(self, observation: Observation) -> Sequence[Action]:
        """Returns the possible actions."""

    def is_inside(self, cell: Cell) -> bool:
        """Returns whether a cell counts for coverage."""

    def truth(self) -> Mapping[str, bool] | None:
        """Returns whether each tile hurts, to measure fear; None if unknown."""

    def close(self) -> None:
        """Releases resources."""


@runtime_checkable
class ReportsMetrics(Protocol):
    """World with its own metrics at the end of an episode."""

    def facts(self) -> Mapping[str, float]:
        """Returns the metrics by name."""


def get_guide(world: World) -> WorldGuide:
    """Returns the explanation of a world; a general one if the world has none."""
    guide = getattr(world, "guide", None)
    return guide if isinstance(guide, WorldGuide) else WorldGuide()


def get_world_path(env: str, folder: Path) -> Path | None:
    """Returns the file that `env` names; None for a built-in world."""
    file, colon, _ = env.rpartition(":")
    return (folder / file).resolve() if colon and file.endswith(".py") else None


def load_function(setting: str, value: str, folder: Path) -> Callable[..., Any]:
    """Returns the function that a setting names as `file.py:Name`. The task's own code runs in this process.

    Raises:
        SetupError: The file or name is missing, or loading fails.
    """
    path, name = get_world_path(value, folder), value.rpartition(":")[2]
    if path is None:
        raise errors.SetupError(f"{setting} is {value!r:.80}. Name a file in the task folder: file.py:Name.")
    if not path.is_file() or not path.is_relative_to(folder.resolve()):
        raise errors.SetupError(f"{setting} is {value!r:.80}, and {path.name:.60} is not in the task folder {folder}.")
    module = errors.capture(lambda: module_loader.load_module(str(path), "atoll_world"), reraise=())
    if isinstance(module, errors.CaughtException):
        remedy = missing_modules.describe_missing(str(module))
        raise errors.SetupError(f"{path.name} cannot be loaded: {module!s:.200}. {remedy}".rstrip())
    function: Any = getattr(module, name, None)
    if not callable(function):
        own = [key for key, item in vars(module).items() if getattr(item, "__module__", "") == module.__name__]
        names = [key for key in own if callable(getattr(module, key)) and not key.startswith("_")]
        raise errors.SetupError(
            f"{path.name} has no {name!r:.60} that can be called. It has {', '.join(names)[:200] or 'no classes'}."
        )
    return function  # type: ignore[no-any-return]
