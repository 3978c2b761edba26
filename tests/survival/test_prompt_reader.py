"""The prompt of an LLM thinker holds what is needed: a reader that sees nothing but its text reaches its goals."""

import json
import re
from collections import deque
from random import Random
from typing import Any

import pytest

from atoll import llm, playbook
from atoll.survival.agent_state import AgentSettings
from atoll.survival.episode import EpisodeRunner
from atoll.survival.loop import Roles
from atoll.survival.plan import LoopSnapshot
from atoll.survival.thinkers.llm import LLMThinker
from atoll.survival.thinkers.thinker import RuleThinker
from atoll.survival.worlds.gridworld import GridWorld

OFFSETS = {"north": (0, -1), "up": (0, -1), "east": (1, 0), "right": (1, 0)}
OFFSETS |= {"south": (0, 1), "down": (0, 1), "west": (-1, 0), "left": (-1, 0)}
SEEDS = range(10)
MIN_SUCCESSES = 9


class PromptReader:
    """Plans one move from the text of a prompt: to the nearest wanted tile, never onto or next to a feared one."""

    def __init__(self, wanted: dict[str, str], feared: tuple[str, ...], keep_away: tuple[str, ...] = ()) -> None:
        self._wanted, self._feared, self._keep_away = wanted, feared, keep_away

    def __call__(self, prompt: str) -> str:
        if "is over" in prompt:
            return json.dumps({"text": "read"})
        return json.dumps({"goal": "read", "actions": [{"name": self._choose(prompt)}], "risk": 0.1})

    def _choose(self, prompt: str) -> str:
        actions = re.findall(r"^- (\w+)", prompt, re.MULTILINE)
        moves = {offset: name for name in actions if (offset := OFFSETS.get(name.rpartition("_")[2]))}
        legend, rows = self._read_map(prompt)
        tiles = {(x, y): legend.get(letter, "") for y, row in enumerate(rows) for x, letter in enumerate(row)}
        start = next(cell for cell, letter in self._iter_letters(rows) if letter == "@")
        here = re.search(r" on ([^,\n]+), life", prompt)
        levels = dict(re.findall(r"(food|water) (\d\.\d+)", prompt.partition("resources:")[2].partition("\n")[0]))
        needs = {name for name, level in levels.items() if float(level) < 0.8} or set(levels)
        wanted = {tile for tile, gain in self._wanted.items() if not gain or gain in needs}
        if here and here[1] in wanted and "gather" in actions:
            return "gather"
        unsafe = {cell for cell, tile in tiles.items() if tile in self._feared or tile.startswith("sign")}
        for cell, tile in tiles.items():
            if tile in self._keep_away:
                if abs(cell[0] - start[0]) + abs(cell[1] - start[1]) <= 2:
                    return self._flee(tiles, start, cell, unsafe, moves) or actions[0]
                unsafe |= {(cell[0] + dx, cell[1] + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)}
        step = self._find_step(tiles, start, wanted, unsafe) or self._find_step(tiles, start, None, unsafe)
        return str(moves[step] if step else actions[0])

    def _flee(self, tiles: Any, start: Any, danger: Any, unsafe: set[Any], moves: Any) -> str | None:
        """Returns the move that leads farthest from a danger."""
        gaps = {
            name: abs(start[0] + dx - danger[0]) + abs(start[1] + dy - danger[1])
            for (dx, dy), name in moves.items()
            if tiles.get((start[0] + dx, start[1] + dy)) and (start[0] + dx, start[1] + dy) not in unsafe
        }
        return max(gaps, key=lambda name: gaps[name], default=None)

    def _read_map(self, prompt: str) -> tuple[dict[str, str], list[str]]:
        block = re.search(r"^map: you are @; ([^\n]+)\n((?:  [^\n]*\n)+)", prompt, re.MULTILINE)
        assert block is not None, prompt
        legend = dict(item.split(" ", 1) for item in block[1].split(", "))
        return legend, [line[2:] for line in block[2].splitlines()]

    def _iter_letters(self, rows: list[str]) -> Any:
        return (((x, y), letter) for y, row in enumerate(rows) for x, letter in enumerate(row))

    def _find_step(self, tiles: Any, start: Any, wanted: set[str] | None, unsafe: set[Any]) -> Any:
        """Returns the first step of the shortest way to a wanted tile; None wants the edge of the view."""
        queue, first_steps = deque([start]), dict[Any, Any]({start: None})
        while queue:
            x, y = cell = queue.popleft()
            is_edge = any((x + dx, y + dy) not in tiles for dx, dy in OFFSETS.values())
            if cell != start and (tiles[cell] in wanted if wanted is not None else is_edge):
                return first_steps[cell]
            for offset in dict.fromkeys(OFFSETS.values()):
                near = (x + offset[0], y + offset[1])
                if near in tiles and tiles[near] and near not in first_steps and near not in unsafe:
                    first_steps[near] = first_steps[cell] or offset
                    queue.append(near)
        return None


def run_episode(world: Any, reader: PromptReader, seed: int, turns: int) -> tuple[Any, list[LoopSnapshot]]:
    snapshots: list[LoopSnapshot] = []
    runner = EpisodeRunner(
        playbook.Curator(),
        lambda agent, seed: Roles(LLMThinker(llm.FunctionLLM(reader), RuleThinker(Random(seed)))),
        AgentSettings(),
        max_turns=turns,
        has_text=True,
        show=snapshots.append,
    )
    return runner.run(world, playbook.Playbook(), {}, seed=seed), snapshots


class BeastGrid(GridWorld):
    """Grid with a beast two cells from the start."""

    def reset(self, seed: int) -> Any:
        super().reset(seed)
        (x, y), terrain = self.grid.body.cell, self.grid.terrain
        cells = [(x + 2, y), (x, y + 2), (x - 2, y), (x, y - 2)]
        terrain.beasts = [next(cell for cell in cells if terrain.is_open(cell))]
        return super().reset(seed) if not terrain.beasts else self._observe_again()

    def _observe_again(self) -> Any:
        from atoll.survival.worlds.gridworld import make_observation

        return make_observation(self.grid.terrain, self.grid.body, 0.0)


def test_reader_finds_food_and_avoids_beast_in_grid():
    successes = 0
    for seed in SEEDS:
        reader = PromptReader({"bush": "food", "pool": "water"}, ("rock", "beast"), keep_away=("beast",))
        _, snapshots = run_episode(BeastGrid("meadow", seed), reader, seed, 38)
        steps = [step for snapshot in snapshots for step in snapshot.steps]
        has_eaten = any("food" in step.after.gained for step in steps)
        is_bitten = any("beast" in step.after.harm for step in steps)
        successes += has_eaten and not is_bitten
    assert successes >= MIN_SUCCESSES


@pytest.mark.parametrize(
    ("env", "arguments", "wanted", "feared"),
    [
        ("MiniGrid-Empty-Random-6x6-v0", {}, "goal", ("wall",)),
        ("FrozenLake-v1", {"is_slippery": False}, "goal tile", ("tile with a hole",)),
        ("FrozenLake-v1", {"is_slippery": False, "map_name": "8x8"}, "goal tile", ("tile with a hole",)),
    ],
)
def test_reader_reaches_goal(env, arguments, wanted, feared):
    pytest.importorskip("minigrid")
    from atoll.survival.worlds.gymnasium_world import make_gymnasium_world

    world = make_gymnasium_world(env, arguments)
    reader = PromptReader({wanted: ""}, feared)
    rewards = [run_episode(world, reader, seed, 40)[0].reward for seed in SEEDS]
    world.close()
    assert sum(reward > 0 for reward in rewards) >= MIN_SUCCESSES


def test_reader_reads_text_of_own_describer():
    gymnasium = pytest.importorskip("gymnasium")
    from atoll.survival.worlds.gymnasium_world import GymnasiumWorld

    def describe(observation, info):
        return f"You need action_{observation % 2}."

    class Parity(gymnasium.Env):  # type: ignore[misc,name-defined]
        observation_space, action_space = gymnasium.spaces.Discrete(100), gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self._state, self._left = int(self.np_random.integers(100)), 10
            return self._state, {}

        def step(self, action):
            reward, self._left = float(action == self._state % 2), self._left - 1
            self._state = int(self.np_random.integers(100))
            return self._state, reward, False, self._left == 0, {}

    def read(prompt: str) -> str:
        needed = re.search(r"\| You need (action_\d)\.", prompt)
        return json.dumps({"goal": "", "actions": [{"name": needed[1] if needed else "action_0"}], "text": ""})

    world = GymnasiumWorld(Parity(), describe)
    assert run_episode(world, read, 1, 10)[0].reward == 10  # type: ignore[arg-type]
