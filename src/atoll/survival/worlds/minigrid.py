"""MiniGrid (extra `envs`): lava and obstacle tasks, with moves in four directions instead of turning."""

import importlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from atoll import errors
from atoll.candidate import EMPTY
from atoll.survival.worlds.world import REACH_HERE, Action, Cell, Observation, WorldGuide

MOVES: Mapping[str, Cell] = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}
LEFT, RIGHT, FORWARD = 0, 1, 2
HEADINGS = ("east", "south", "west", "north")  # MiniGrid's numbering of directions
SIGHT = 3


def make_guide(mission: str) -> WorldGuide:
    return WorldGuide(
        f"Your mission: {mission[:300]}. Reach the tile named goal without entering lava or a moving ball.",
        "Up to 1 for reaching the goal, more the sooner; nothing otherwise. Death ends the episode without a reward.",
        {"wait": "turn on the spot for one tick"},
    )


class MiniGridWorld:
    """MiniGrid environment without metabolism. A move turns as needed and goes one step.

    Entering lava or an obstacle ends the episode. Reaching the goal ends it with a reward.
    """

    def __init__(self, id: str, arguments: Mapping[str, Any] = EMPTY) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                gymnasium: Any = importlib.import_module("gymnasium")
                importlib.import_module("minigrid")
        except ImportError as error:
            raise errors.MissingExtra("MiniGrid is not installed. Run: pip install 'atoll[envs]'.") from error
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._env: Any = gymnasium.make(id, **arguments).unwrapped
        except (gymnasium.error.Error, TypeError, ValueError, AssertionError) as error:
            message = f"MiniGrid environment {id!r:.60} cannot be made: {error!s:.120}."
            raise errors.SetupError(f"{message} Example: minigrid:MiniGrid-LavaGapS5-v0.") from error
        if not hasattr(self._env, "agent_pos"):
            raise errors.SetupError(f"{id!r:.60} is not a MiniGrid environment. Write gymnasium:{id:.60}.")
        self.name = f"minigrid {id}"
        self.actions: Sequence[str] = ("wait", *MOVES)
        self.moves, self.reach = MOVES, REACH_HERE
        self.things: Sequence[str] = ()
        self.patience, self.is_scored_by_reward = 2, True
        self._env.reset(seed=0)
        self.guide = make_guide(str(self._env.mission))
        self.num_cells = self._env.width * self._env.height
        self._candidates = [Action(name) for name in self.actions]

    def reset(self, seed: int) -> Observation:
        self._env.reset(seed=seed)
        self.guide = make_guide(str(self._env.mission))
        return self._make_observation(0.0, False, False)

    def act(self, action: Action) -> Observation:
        if action.name == "wait":
            return self._finish_step(self._env.step(LEFT), self._get_tile(self._env.agent_pos))
        dx, dy = MOVES[action.name]
        intended_tile = self._get_tile(self._env.agent_pos + np.array((dx, dy)))
        target_direction, direction = HEADINGS.index(action.name), int(self._env.agent_dir)
        turn = LEFT if (direction - target_direction) % 4 == 1 else RIGHT
        while int(self._env.agent_dir) != target_direction:
            step_result = self._env.step(turn)
            if step_result[2] or step_result[3]:
                return self._finish_step(step_result, self._get_tile(self._env.agent_pos))
        tile_ahead = self._get_tile(self._env.front_pos)
        if tile_ahead != intended_tile:  # an obstacle moved in the way during the turn
            return replace(self._make_observation(0.0, False, False), refused=f"{tile_ahead} moved in the way")
        return self._finish_step(self._env.step(FORWARD), tile_ahead)

    def _get_tile(self, position: Any) -> str:
        x, y = int(position[0]), int(position[1])
        if not (0 <= x < self._env.width and 0 <= y < self._env.height):
            return "wall"
        cell = self._env.grid.get(x, y)
        return "floor" if cell is None else str(cell.type)

    def _finish_step(self, step_result: Any, entered: str) -> Observation:
        _, reward, is_over, is_late, _ = step_result
        is_dead = bool(is_over) and float(reward) <= 0
        return self._make_observation(float(reward), bool(is_over or is_late), is_dead, entered)

    def _make_observation(self, reward: float, is_over: bool, is_dead: bool, entered: str = "") -> Observation:
        x, y = (int(value) for value in self._env.agent_pos)
        offsets = range(-SIGHT, SIGHT + 1)
        tiles = {(x + dx, y + dy): self._get_tile((x + dx, y + dy)) for dx in offsets for dy in offsets}
        cause = entered if is_dead else None
        return Observation(
            int(self._env.step_count),
            (x, y),
            0.0 if is_dead else 1.0,
            {},
            tiles,
            tiles[x, y],
            harm={entered: 1.0} if is_dead else {},
            gained=("reward",) if reward > 0 else (),
            reward=reward - (1.0 if is_dead else 0.0),
            is_over=is_over,
            cause=cause,
        )

    def candidates(self, observation: Observation) -> Sequence[Action]:
        return self._candidates

    def is_inside(self, cell: Cell) -> bool:
        return bool(0 <= cell[0] < self._env.width and 0 <= cell[1] < self._env.height)

    def truth(self) -> Mapping[str, bool] | None:
        return {"lava": True, "ball": True}

    def close(self) -> None:
        self._env.close()
