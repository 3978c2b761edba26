"""Any gymnasium environment as a world: its spaces, its info and its documentation become words.

A rectangular text map (`render_mode="ansi"`) also becomes tiles, so that thinkers with a map can use it.
"""

import importlib
import inspect
import itertools
import logging
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from atoll import errors
from atoll.candidate import EMPTY
from atoll.survival.worlds.crafter import CrafterWorld
from atoll.survival.worlds.minigrid import MiniGridWorld
from atoll.survival.worlds.world import REACH_HERE, Action, Cell, Observation, World, WorldGuide

type Describe = Callable[[Any, Mapping[str, Any]], str]

MAX_ACTIONS = 64
MAX_VALUES = 64  # numbers of an observation that are listed one by one
MAX_TEXT_CHARS = 3_000
_DIRECTIONS: Mapping[str, Cell] = {
    "left": (-1, 0), "west": (-1, 0), "right": (1, 0), "east": (1, 0),
    "up": (0, -1), "north": (0, -1), "down": (0, 1), "south": (0, 1),
}  # fmt: skip
_log = logging.getLogger(__name__)
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_HIGHLIGHT = re.compile(r"\x1b\[[0-9;]+m(.)\x1b\[0m")
_BRACKETS = re.compile(r"\[(.)\]")
_NUMBERED = re.compile(r"^\s*(?:[-*]\s*)?`?(\d{1,3})`?\s*[:=]\s*(.+?)\s*$", re.MULTILINE)
_TABLE_ROW = re.compile(r"^\s*\|\s*(\d{1,3})\s*\|\s*([^|\n]+?)\s*\|", re.MULTILINE)
_LETTER = re.compile(r"""["'`](\w)["'`] (?:for|is|means|denotes) (?:an? |the )?([\w ]{1,30})""")


def make_gymnasium_world(id: str, arguments: Mapping[str, Any] = EMPTY, describe: Describe | None = None) -> World:
    """Makes the world of a registered id. MiniGrid and Crafter have worlds of their own, with moves and tiles.

    Args:
        id: Id in gymnasium's registry, such as `FrozenLake-v1` or `module:Name-v0`.
        arguments: Keyword arguments of the environment.
        describe: Describes an observation and its info in words; None describes them by their spaces.

    Raises:
        SetupError: The environment cannot be made.
        MissingExtra: gymnasium is not installed.
    """
    if id.startswith(("MiniGrid-", "BabyAI-")) and describe is None:
        return MiniGridWorld(id, arguments)
    if id.startswith("Crafter"):
        try:
            return CrafterWorld(**arguments)
        except TypeError as error:
            raise errors.SetupError(f"task.env_args is not valid for {id:.40}: use area and length.") from error
    gymnasium = _import_gymnasium()

    def make(**more: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return gymnasium.make(id, **arguments, **more)

    env = _attempt(make, f"The environment gymnasium:{id:.80} cannot be made")
    if "render_mode" not in arguments and "ansi" in (env.metadata.get("render_modes") or ()):
        env.close()
        env = _attempt(lambda: make(render_mode="ansi"), f"The environment gymnasium:{id:.80} cannot be made")
    return GymnasiumWorld(env, describe, name=f"gymnasium {id}")


def complete_arguments(make: Callable[..., Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Adds `render_mode="ansi"` to the arguments of a user's class that has text maps and accepts it."""
    metadata = getattr(make, "metadata", None)
    modes = metadata.get("render_modes") if isinstance(metadata, Mapping) else None
    if "render_mode" in arguments or "ansi" not in (modes or ()):
        return arguments
    return {**arguments, "render_mode": "ansi"} if "render_mode" in inspect.signature(make).parameters else arguments


def to_world(env: Any, describe: Describe | None = None, name: str = "") -> World:
    """Returns an object of a user as a world: a `World` stays, a gymnasium environment is wrapped.

    Raises:
        SetupError: It is neither.
    """
    if all(hasattr(env, method) for method in ("reset", "act", "candidates", "actions")):
        world: World = env
        return world
    if all(hasattr(env, method) for method in ("reset", "step", "action_space", "observation_space")):
        return GymnasiumWorld(env, describe, name=name)
    raise errors.SetupError(
        f"{name or 'The function'} returned {type(env).__name__}, which is neither a gymnasium environment nor a "
        "world. Return an object with reset, step, action_space and observation_space."
    )


class GymnasiumWorld:
    """A gymnasium environment without metabolism: life is 1 until the episode ends badly.

    The environment may say how it ended with `info["is_success"]`, `info["success"]` or `info["died"]`. Otherwise a
    last reward below 0 is a death, and so is the end of an episode that never paid or that paid every step the same
    positive reward, such as CartPole.

    Args:
        env: Environment with `reset(seed=)` and a `step` that returns five values.
        describe: Describes an observation and its info; None uses the text map or the spaces.
        name: Display name.

    Raises:
        SetupError: The environment does not follow the interface, or its action space is not supported.
    """

    def __init__(self, env: Any, describe: Describe | None = None, *, name: str = "") -> None:
        self._env, self._describe = env, describe
        self.name = name or f"gymnasium {type(getattr(env, 'unwrapped', env)).__name__}"
        text = inspect.cleandoc(getattr(env, "unwrapped", env).__doc__ or "")
        self._doc = text if not text.startswith("The main Gymnasium class") else ""  # inherited documentation
        self._values, names = _list_actions(env.action_space, _section(self._doc, "Action Space"), self.name)
        self.actions: Sequence[str] = list(names)
        self._columns = dict(_TABLE_ROW.findall(_section(self._doc, "Observation Space")))
        self._letters = {letter: name.strip().lower() for letter, name in _LETTER.findall(self._doc)}
        self._known_tiles: dict[Cell, str] = {}
        self._has_warned = False
        self._tick, self._rewards, self._info = 0, list[float](), dict[str, Any]()
        start = self.reset(0)
        steps = {name: move for name in names if (move := _find_direction(name)) is not None}
        is_map = bool(start.tiles) and len(set(steps.values())) == len(steps) >= 2
        self.moves: Mapping[str, Cell] = steps if is_map else {}
        self.reach, self.patience, self.is_scored_by_reward = REACH_HERE, 4, True
        self.things: Sequence[str] = [name for name in names if name not in self.moves]
        self.num_cells = len(start.tiles)
        self.guide = WorldGuide(
            (_section(self._doc, "") or " ".join(_section(self._doc, "Description").split()))[:600]
            or "Collect as much reward as possible.",
            " ".join(_section(self._doc, "Rewards").split())[:600]
            or "The environment rewards each action; the sum counts.",
            dict(names),
        )

    def reset(self, seed: int) -> Observation:
        result = self._call(lambda: self._env.reset(seed=seed), "reset(seed=...)")
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping)):
            raise errors.SetupError(f"{self.name}: reset must return (observation, info), as in gymnasium.")
        self._tick, self._rewards, self._known_tiles, self._info = 0, [], {}, dict(result[1])
        return self._make_observation(result[0], 0.0, False, False)

    def act(self, action: Action) -> Observation:
        value = self._values[self.actions.index(action.name)]
        result = self._call(lambda: self._env.step(value), f"step({value!r:.40})")
        if not (isinstance(result, tuple) and len(result) == 5):
            raise errors.SetupError(
                f"{self.name}: step must return (observation, reward, terminated, truncated, info), as in gymnasium."
            )
        observation, reward, is_terminated, is_truncated, info = result
        number = errors.capture(lambda: float(reward), reraise=())
        if isinstance(number, errors.CaughtException):
            raise errors.SetupError(f"{self.name}: step() returned the reward {reward!s:.40}. Return a finite number.")
        if not math.isfinite(number):
            if not self._has_warned:
                _log.warning(
                    "%s: step() returned the reward %s, which counts as 0. Return a finite number.", self.name, number
                )
                self._has_warned = True
            number = 0.0
        self._tick, self._info = self._tick + 1, dict(info) if isinstance(info, Mapping) else {}
        self._rewards.append(number)
        return self._make_observation(observation, number, bool(is_terminated), bool(is_truncated))

    def _call(self, call: Callable[[], Any], where: str) -> Any:
        """Calls the environment. Its exceptions end the run with one sentence."""
        return _attempt(call, f"{self.name} failed in {where}")

    def _make_observation(self, value: Any, reward: float, is_terminated: bool, is_truncated: bool) -> Observation:
        rendered = self._render()
        text = self._describe_value(value, rendered)
        text_map = None if self._describe is not None and not rendered else _parse_map(rendered, self._known_tiles)
        tiles, position = dict[Cell, str](), (0, 0)
        if text_map is not None:
            tiles = {cell: self._letters.get(letter, letter) for cell, letter in text_map.letters.items()}
            position, self._known_tiles = text_map.position, dict(text_map.letters)
        current_tile = tiles.get(position, "")
        is_dead = is_terminated and self._is_death(reward)
        cause = current_tile or "the end of the episode"
        return Observation(
            self._tick,
            position,
            0.0 if is_dead else 1.0,
            {},
            tiles,
            current_tile,
            harm={cause: 1.0} if is_dead else {},
            gained=("reward",) if reward > 0 and not is_dead else (),
            reward=reward,
            text=text,
            is_over=is_terminated or is_truncated,
            cause=cause if is_dead else None,
        )

    def _is_death(self, reward: float) -> bool:
        for key in ("is_success", "success"):
            if isinstance(self._info.get(key), bool | int | float | np.bool_):
                return not self._info[key]
        if isinstance(self._info.get("died"), bool | np.bool_):
            return bool(self._info["died"])
        if len(set(self._rewards)) == 1:
            # Always positive: the episode pays for staying alive. Always negative: it charges for time, until the goal.
            return reward >= 0 and (len(self._rewards) > 1 or reward == 0)
        return reward < 0 or (reward == 0 and not any(self._rewards))

    def _render(self) -> str:
        if getattr(self._env, "render_mode", None) != "ansi":
            return ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return str(self._call(self._env.render, "render()") or "")[: 4 * MAX_TEXT_CHARS]

    def _describe_value(self, value: Any, rendered: str) -> str:
        if self._describe is not None:
            describe = self._describe
            text = self._call(lambda: describe(value, self._info), "describe(observation, info)")
            if not isinstance(text, str):
                raise errors.SetupError(f"describe must return a str, not {type(text).__name__}.")
            return text[:MAX_TEXT_CHARS]
        parts = [describe_value(self._env.observation_space, value, self._columns)]
        parts += [_ANSI.sub("", _HIGHLIGHT.sub(r"[\1]", rendered)).strip("\n")] if rendered else []
        if facts := [f"{name} = {item}" for name, item in self._info.items() if _is_plain(item) and name != "prob"]:
            parts.append("info: " + ", ".join(facts[:20]))
        return "\n".join(filter(None, parts))[:MAX_TEXT_CHARS]

    def candidates(self, observation: Observation) -> Sequence[Action]:
        """Returns all actions, or those that `info["action_mask"]` allows."""
        mask: Any = self._info.get("action_mask")
        is_mask = mask is not None and not isinstance(mask, str) and np.shape(mask) == (len(self.actions),)
        allowed = [name for name, is_on in zip(self.actions, mask, strict=True) if is_on] if is_mask else ()
        return [Action(name) for name in allowed or self.actions]

    def is_inside(self, cell: Cell) -> bool:
        return cell in self._known_tiles

    def truth(self) -> Mapping[str, bool] | None:
        return None

    def close(self) -> None:
        self._env.close()


def describe_value(space: Any, value: Any, names: Mapping[str, str] = EMPTY) -> str:
    """Returns an observation in words, by its space.

    Args:
        space: Observation space.
        value: Observation.
        names: Meaning of the numbers of a vector, by index.
    """
    kind = type(space).__name__
    if kind == "Dict" and isinstance(value, Mapping):
        return "\n".join(f"{key}: {describe_value(space.spaces.get(key), item)}" for key, item in value.items())
    if kind == "Tuple" and isinstance(value, Sequence):
        return "\n".join(
            f"{names.get(str(index), f'part {index}')}: {describe_value(part, item)}"
            for index, (part, item) in enumerate(zip(space.spaces, value, strict=False))
        )
    if kind == "Discrete":
        return f"{value} of {space.start} to {space.start + space.n - 1}"
    if isinstance(value, str):
        return value
    array = np.asarray(value)
    if array.dtype == object or array.dtype.kind not in "biuf":
        return str(value)[:MAX_TEXT_CHARS]
    if array.size > MAX_VALUES:
        shape, numbers = " x ".join(map(str, array.shape)), array.astype(float)
        return f"array of {shape} numbers, {numbers.min():g} to {numbers.max():g}, mean {numbers.mean():.3g}"
    if array.ndim > 1:
        return "\n".join(" ".join(f"{item:.4g}" for item in row) for row in array.reshape(-1, array.shape[-1]))
    texts = [
        f"{names[str(index)]} = {item:.4g}" if str(index) in names else f"{item:.4g}"
        for index, item in enumerate(array.ravel().astype(float))
    ]
    return ", ".join(texts)


class _TextMap(NamedTuple):
    letters: Mapping[Cell, str]
    position: Cell


def _parse_map(rendered: str, known: Mapping[Cell, str]) -> _TextMap | None:
    """Reads a rectangular map of letters with one marked cell; None for other texts.

    A highlighted cell and `[F]` mark the cell of the agent; `@`, and `x` without another mark, also cover its letter.
    """
    lines = [line for line in rendered.splitlines() if _ANSI.sub("", line).strip() and not line.startswith("  (")]
    cells: dict[Cell, str] = {}
    marks: list[Cell] = []
    widths = set()
    for y, line in enumerate(lines):
        marked = _BRACKETS.sub(r"\0\1", _HIGHLIGHT.sub(r"\0\1", line))
        tokens = marked.split() if " " in marked.strip() else re.findall(r"\0?.", marked)
        widths.add(len(tokens))
        for x, token in enumerate(tokens):
            marks += [(x, y)] if token.startswith("\0") or token == "@" else []
            cells[x, y] = token.lstrip("\0")
    is_map = all(len(item) == 1 and (item.isalnum() or item == "@") for item in cells.values())
    if len(widths) != 1 or len(cells) < 4 or not is_map:
        return None
    cover = "@" if marks else "x"
    covered = [cell for cell, letter in cells.items() if letter == cover]
    usual = Counter(letter for letter in cells.values() if letter != cover).most_common(1)
    cells |= {cell: known.get(cell, usual[0][0]) for cell in covered if usual}
    marks = marks or covered
    return _TextMap(cells, marks[0]) if len(marks) == 1 else None


def _list_actions(space: Any, doc: str, name: str) -> tuple[Sequence[Any], Mapping[str, str]]:
    """Returns the values of the actions, and their names with what they do."""
    kind = type(space).__name__
    if kind == "Discrete":
        values: list[Any] = [int(space.start) + index for index in range(min(int(space.n), MAX_ACTIONS + 1))]
    elif kind in ("MultiDiscrete", "MultiBinary"):
        sizes = [2] * int(np.prod(space.shape)) if kind == "MultiBinary" else list(np.ravel(space.nvec))
        if math.prod(map(int, sizes)) > MAX_ACTIONS:
            values = [None] * (MAX_ACTIONS + 1)
        else:
            values = [np.array(item) for item in itertools.product(*(range(int(size)) for size in sizes))]
    elif kind == "Box" and np.prod(space.shape) <= MAX_ACTIONS // 4:
        values = _list_corners(space)
    else:
        raise errors.SetupError(
            f"{name}: the action space {space!s:.60} is not supported. Wrap the environment to give it a Discrete one."
        )
    if len(values) > MAX_ACTIONS:
        raise errors.SetupError(f"{name}: the action space {space!s:.60} has over {MAX_ACTIONS} actions. Wrap it.")
    helps = dict(_NUMBERED.findall(doc)) | dict(_TABLE_ROW.findall(doc))
    names: dict[str, str] = {}
    for index, value in enumerate(values):
        help_text = helps.get(str(value), "") if kind == "Discrete" else ""
        fallback = f"action {value}" if kind == "Discrete" else f"action {index}"
        label = re.sub(r"[^\w]+", "_", help_text.partition("(")[0].lower()).strip("_")[:40] or fallback.replace(
            " ", "_"
        )
        label = label if label not in names else f"{label}_{index}"
        names[label] = help_text or (f"value {np.round(value, 4).tolist()}" if kind != "Discrete" else "")
    return values, names


def _list_corners(space: Any) -> list[Any]:
    """Returns a few values of a continuous space: the middle, and the ends of each dimension."""
    low, high = np.clip(space.low, -1e3, 1e3), np.clip(space.high, -1e3, 1e3)
    middle = ((low + high) / 2).astype(space.dtype)
    values = [middle]
    for index in np.ndindex(space.shape):
        for share in (0.0, 0.25, 0.75, 1.0):
            changed = middle.copy()
            changed[index] = low[index] + share * (high[index] - low[index])
            values.append(changed)
    return values[: MAX_ACTIONS + 1]


def _find_direction(name: str) -> Cell | None:
    words = set(re.split(r"[\W_]+", name.lower()))
    moves = {_DIRECTIONS[word] for word in words & _DIRECTIONS.keys()}
    return moves.pop() if len(moves) == 1 and "turn" not in words else None


def _section(doc: str, title: str) -> str:
    """Returns a section of an environment's documentation; without a title the text before the first heading."""
    parts = re.split(r"^[ \t]*##+\s*(.+?)\s*$", f"\n{doc}", flags=re.MULTILINE)
    if not title:
        return " ".join(parts[0].split())
    sections = {heading.lower(): text for heading, text in zip(parts[1::2], parts[2::2], strict=True)}
    text = next((text for heading, text in sections.items() if heading.startswith(title.lower())), "")
    return text.strip()


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | np.number | np.bool_) or (isinstance(value, str) and len(value) < 200)


def _attempt(call: Callable[[], Any], what: str) -> Any:
    """Calls foreign code. Its exception becomes a `SetupError` of one sentence."""
    result = errors.capture(call, reraise=())
    if isinstance(result, errors.CaughtException):
        message = " ".join(str(result).split())
        raise errors.SetupError(f"{what}: {message:.200}{'' if message.endswith('.') else '.'}")
    return result


def _import_gymnasium() -> Any:
    try:
        return importlib.import_module("gymnasium")
    except ImportError as error:
        raise errors.MissingExtra("gymnasium is not installed. Run: pip install 'atoll[envs]'.") from error
