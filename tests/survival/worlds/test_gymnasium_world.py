"""Gymnasium environments as worlds: registered ids, own functions, descriptions and errors."""

import json
import math
from typing import Any

import pytest

from atoll import cli, errors, testing

gymnasium = pytest.importorskip("gymnasium")

from atoll.survival.worlds.gymnasium_world import (  # noqa: E402
    GymnasiumWorld,
    _parse_map,
    complete_arguments,
    describe_value,
    make_gymnasium_world,
    to_world,
)
from atoll.survival.worlds.world import Action  # noqa: E402


class Corridor(gymnasium.Env):  # type: ignore[misc,name-defined]
    """Walk to the right end.

    ## Action Space
    - 0: Step left
    - 1: Step right
    """

    observation_space = gymnasium.spaces.Discrete(5)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length: int = 4) -> None:
        self._length = length

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._x = 0
        return self._x, {}

    def step(self, action: int) -> Any:
        self._x = max(0, self._x + (1 if action else -1))
        is_there = self._x >= self._length
        return self._x, float(is_there), is_there, False, {"steps left": self._length - self._x}


MODULE = """
import gymnasium
{corridor}
def make(length=4):
    return Corridor(length)

def describe(observation, info):
    return f"You are {{observation}} steps from the left end."

def nothing():
    return 5

class Broken(Corridor):
    def step(self, action):
        raise ValueError("the floor is gone")

class Old(Corridor):
    def reset(self, seed=None):
        return 0

class Unpaid(Corridor):
    def step(self, action):
        return 0, None, False, False, {}
"""


class Field(gymnasium.Env):  # type: ignore[misc,name-defined]
    """Walk to the goal, past the pit.

    - "F" for a field
    - "P" for a pit
    - "G" for the goal

    ## Action Space
    - 0: Left
    - 1: Right
    - 2: Up
    - 3: Down
    """

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012
    observation_space = gymnasium.spaces.MultiDiscrete([3, 3])
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._x, self._y = 0, 0
        return [0, 0], {}

    def step(self, action: int) -> Any:
        dx, dy = [(-1, 0), (1, 0), (0, -1), (0, 1)][action]
        self._x, self._y = min(2, max(0, self._x + dx)), min(2, max(0, self._y + dy))
        tile = ["FPF", "FFF", "FPG"][self._y][self._x]
        return [self._x, self._y], float(tile == "G"), tile in "PG", False, {}

    def render(self) -> str:
        rows = [list(row) for row in ("FPF", "FFF", "FPG")]
        rows[self._y][self._x] = f"[{rows[self._y][self._x]}]"
        return "\n".join("".join(row) for row in rows)


@pytest.fixture
def task(tmp_path):
    import inspect

    corridor = "from typing import Any\n" + inspect.getsource(Corridor) + inspect.getsource(Field)
    (tmp_path / "corridor.py").write_text(MODULE.replace("{corridor}", corridor).replace("{{", "{").replace("}}", "}"))
    (tmp_path / "imports.py").write_text("import no_such_module\n")
    (tmp_path / "atoll.toml").write_text('system = "survival"\n[task]\nenv = "corridor.py:make"\n')
    return tmp_path


def run(task, capsys, *settings: str, episodes: int = 3):
    options = [part for setting in settings for part in ("--set", setting)]
    command = ["run", str(task), "--store", str(task / "atoll.db"), "--json", "-q", "-i", str(episodes), *options]
    status = cli.main(command)
    output = capsys.readouterr()
    return status, json.loads(output.out.splitlines()[-1]) if output.out else {}, output.err


def test_agent_learns_frozen_lake_from_registered_id(task, capsys):
    status, result, _ = run(
        task, capsys, "task.env=gymnasium:FrozenLake-v1", "task.env_args={is_slippery=false}", episodes=8
    )
    assert status == 0
    assert result["mean_reward"] > 0.5


def test_agent_learns_own_map(task, capsys):
    _, result, _ = run(task, capsys, "task.env=corridor.py:Field", episodes=8)
    assert result["deaths"] <= 2
    assert result["mean_reward"] >= 0.7


@pytest.mark.parametrize(("name", "has_map"), [("Field", True), ("Corridor", False)])
def test_header_says_that_map_is_missing(task, capsys, name, has_map):
    options = ["--set", f"task.env=corridor.py:{name}", "--store", str(task / "atoll.db"), "-i", "1"]
    assert cli.main(["run", str(task), *options]) == 0
    assert ("none (the agent cannot learn places)" in capsys.readouterr().err) != has_map


def test_own_function_and_describer_run(task, capsys):
    status, result, _ = run(task, capsys, "task.describe=corridor.py:describe", "task.env_args={length=3}")
    assert status == 0
    assert result["best_score"] == 1.0


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("task.env=gymnasium:Nowhere-v0", "cannot be made"),
        ("task.env=gymnasium:nowhere:Nowhere-v0", "cannot be made"),
        ("task.env=corridor.py:nothing", "is neither a gymnasium environment nor a world"),
        ("task.env=corridor.py:Broken", "the floor is gone"),
        ("task.env=corridor.py:Old", "reset must return (observation, info)"),
        ("task.env_args={width=3}", "unexpected keyword argument"),
        ("task.describe=corridor.py:paint", "has no 'paint'"),
        ("task.env=corridor.py:Coridor", "It has Corridor, Field, make, describe, nothing, Broken, Old, Unpaid."),
        ("task.env=missing.py:Corridor", "missing.py is not in the task folder"),
        ("task.env=imports.py:Corridor", "pip install no_such_module"),
        ("task.env=corridor.py:Unpaid", "corridor.py:Unpaid: step() returned the reward None. Return a finite number."),
    ],
)
def test_wrong_environment_gives_one_sentence(task, capsys, setting, message):
    status, _, error = run(task, capsys, setting)
    assert status == 2
    assert message in error
    assert "Traceback" not in error


class TestCorridor(testing.WorldSuite):
    def make(self):
        return to_world(Corridor())


class TestFrozenLake(testing.WorldSuite):
    def make(self):
        return make_gymnasium_world("FrozenLake-v1", {"is_slippery": False})


def test_actions_and_goal_come_from_documentation():
    world = to_world(Corridor())
    assert list(world.actions) == ["step_left", "step_right"]
    assert world.guide.goal == "Walk to the right end."  # type: ignore[attr-defined]


def test_text_map_becomes_tiles_and_moves():
    world = make_gymnasium_world("FrozenLake-v1", {"is_slippery": False})
    observation = world.reset(0)
    assert observation.tiles[3, 3] == "goal tile"
    assert observation.current_tile == "start tile"
    assert world.act(Action("move_right")).position == (1, 0)
    assert "S[F]FF" in world.act(Action("move_left")).text.replace("[S]F", "S[F]")


def test_own_class_with_text_maps_gets_render_mode():
    assert complete_arguments(Field, {}) == {"render_mode": "ansi"}
    assert complete_arguments(Field, {"render_mode": None}) == {"render_mode": None}
    assert complete_arguments(Corridor, {}) == {}

    class Fixed(Field):
        def __init__(self) -> None:
            super().__init__()

    assert complete_arguments(Fixed, {}) == {}


@pytest.mark.parametrize(
    "rendered",
    [
        "FF\nF\x1b[41mF\x1b[0m\nPG",
        "FF\nFx\nPG",
        "FF\nF@\nPG",
        "FF\nF[F]\nPG",
        "F  F\nF  @\nP  G",
        "F F\nF @\nP G",
        "F  F\nF  [F]\nP  G\n",
        "FF\nF[@]\nPG",
    ],
)
def test_mark_of_own_cell_is_read(rendered):
    text_map = _parse_map(rendered, {})
    assert text_map is not None
    assert text_map.position == (1, 1)
    assert "".join(text_map.letters.values()) == "FFFFPG"


def test_mark_covers_known_letter():
    text_map = _parse_map("FF\nF@\nPG", {(1, 1): "P"})
    assert text_map is not None
    assert text_map.letters[1, 1] == "P"


@pytest.mark.parametrize(
    "rendered",
    ["FF\nF@\n@G", "FF\n[F]F\n[P]G", "FF\nx@\n[P]G", "FF\nxx\nPG", "FF\nFF\nPG", "FF\nF[F\nPG", "FF\n[FF]\nPG"],
)
def test_map_without_one_own_cell_is_no_map(rendered):
    assert _parse_map(rendered, {}) is None


def test_ends_of_episodes_are_told_apart():
    lake = make_gymnasium_world("FrozenLake-v1", {"is_slippery": False})
    lake.reset(0)
    assert [lake.act(Action(name)).cause for name in ("move_down", "move_right")] == [None, "tile with a hole"]
    pole = make_gymnasium_world("CartPole-v1")
    observation = pole.reset(0)
    while not observation.is_over:
        observation = pole.act(Action("push_cart_to_the_left"))
    assert observation.cause == "the end of the episode"


def test_spaces_are_described_in_words():
    spaces = gymnasium.spaces
    values = spaces.Dict({"speed": spaces.Box(0, 1, (2,)), "gear": spaces.Discrete(3)})
    assert describe_value(values, {"speed": [0.5, 1.0], "gear": 2}) == "speed: 0.5, 1\ngear: 2 of 0 to 2"
    image = spaces.Box(0, 255, (64, 64, 3), "uint8")
    assert describe_value(image, image.low).startswith("array of 64 x 64 x 3 numbers")


class OddCorridor(Corridor):
    def __init__(self, reward: Any) -> None:
        super().__init__()
        self._reward = reward

    def step(self, action: int) -> Any:
        return 0, self._reward, False, True, None


@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_reward_that_is_not_finite_counts_as_zero_with_a_warning(reward, caplog):
    world = GymnasiumWorld(OddCorridor(reward), name="odd")
    world.reset(0)
    assert world.act(Action("action_0")).reward == 0.0
    assert f"odd: step() returned the reward {reward}, which counts as 0. Return a finite number." in caplog.text


@pytest.mark.parametrize("reward", [None, "much"])
def test_reward_that_is_not_a_number_is_reported(reward):
    world = GymnasiumWorld(OddCorridor(reward), name="odd")
    world.reset(0)
    with pytest.raises(errors.SetupError, match=rf"odd: step\(\) returned the reward {reward}. Return a finite"):
        world.act(Action("action_0"))


def test_unsupported_action_space_is_reported():
    class Writer(Corridor):
        action_space = gymnasium.spaces.Text(5)

    with pytest.raises(errors.SetupError, match="is not supported"):
        GymnasiumWorld(Writer())
