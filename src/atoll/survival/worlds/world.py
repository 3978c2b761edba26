"""What an agent lives in: one observation after the other, and nothing but whitelisted actions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from atoll import errors
from atoll.candidate import EMPTY, JSON
from atoll.sandbox import module_loader

type Cell = tuple[int, int]

HERE, FACING = "here", "facing"  # where the thing is that an action is done to


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do.

    Attributes:
        name: One of the world's actions.
        target: What to do it to, where the action needs that: a path, a command.
        text: What to write there.
    """

    name: str
    target: str = ""
    text: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.target}".strip()


@dataclass(frozen=True, slots=True)
class Observation:
    """All that an agent is told, after its reset and after each action.

    Attributes:
        life: Of 1; 0 is death.
        resources: Levels of 1, by name; at 0 they cost life.
        looks: How the cells in sight look, by place; never what that means.
        here: How the cell under the agent looks.
        facing: The cell before it, where the world knows one.
        is_dark: Whether it is night.
        harm: What the last action and tick took of life, by cause as it felt.
        gained: What they gave, by name.
        held: What the agent carries.
        unlocked: What was reached for the first time in this life.
        reward: The world's own.
        text: Words from the world; untrusted, whatever they say.
        refused: Why the world did not do the action, if it did not.
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
        """Returns its numbers, without the view."""
        return {
            "position": list(self.position),
            "life": round(self.life, 4),
            "resources": {name: round(level, 4) for name, level in self.resources.items()},
            "here": self.current_tile,
            "is_dark": self.is_dark,
            "harm": {name: round(amount, 4) for name, amount in self.harm.items()},
            **({"held": dict(self.inventory)} if self.inventory else {}),
        }


class World(Protocol):
    """An environment as an agent meets it.

    Attributes:
        name: For people.
        actions: The whitelist: nothing else is ever done.
        moves: Which of them go to which neighbour.
        reach: Whether other actions are done to the cell under the agent (`here`) or before it (`facing`).
        things: Actions that are done to a thing; the others depend on what one holds and what stands near.
        patience: How often something is tried before it is said to give nothing.
        num_cells: How many there are to see; 0 where there is no map.
        is_scored_by_reward: Whether a life is worth its reward rather than its ticks.
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
        """Begins a life."""

    def act(self, action: Action) -> Observation:
        """Does one action of the whitelist and tells what came of it; one that cannot be done is `refused`."""

    def candidates(self, observation: Observation) -> Sequence[Action]:
        """Returns what could be done now."""

    def is_inside(self, cell: Cell) -> bool:
        """Tells whether a cell counts as one to see."""

    def truth(self) -> Mapping[str, bool] | None:
        """Returns which looks hurt whoever enters them, for measuring fear; None where nobody knows."""

    def close(self) -> None:
        """Ends what was opened."""


@runtime_checkable
class ReportsMetrics(Protocol):
    """A world that has numbers of its own to tell at the end of a life."""

    def facts(self) -> Mapping[str, float]:
        """Returns them by name."""


def get_world_path(env: str, folder: Path) -> Path | None:
    """Returns the file that an env names, or None where it names a world of ours."""
    file, colon, _ = env.rpartition(":")
    return (folder / file).resolve() if colon and file.endswith(".py") else None


def load_world_factory(env: str, folder: Path) -> Callable[[], World]:
    """Returns what makes the world; it is the task's own code and runs in this process.

    Raises:
        SetupError: There is no such file or name, or it does not load.
    """
    path, name = get_world_path(env, folder), env.rpartition(":")[2]
    if path is None or not path.is_file() or not path.is_relative_to(folder.resolve()):
        raise errors.SetupError(f"task.env is {env!r:.80}: name a file in the task's folder, file.py:Name.")
    module = errors.capture(lambda: module_loader.load_module(str(path), "atoll_world"), reraise=())
    if isinstance(module, errors.CaughtException):
        raise errors.SetupError(f"{path.name} cannot be loaded: {module!s:.200}.")
    factory: Any = getattr(module, name, None)
    if not callable(factory):
        raise errors.SetupError(f"{path.name} has no {name!r:.60} that makes a world.")
    return factory  # type: ignore[no-any-return]
