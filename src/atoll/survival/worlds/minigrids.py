"""MiniGrid (extra `envs`): its lava and obstacle tasks, with moves to the four sides instead of turns."""

import importlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from atoll import errors
from atoll.survival.worlds.world import HERE, Action, Observation, Spot

MOVES: Mapping[str, Spot] = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}
LEFT, RIGHT, FORWARD = 0, 1, 2
HEADINGS = ("east", "south", "west", "north")  # MiniGrid's own numbers of directions
SIGHT = 3


class MiniGridWorld:
    """One environment of MiniGrid. A move turns as often as it must and goes one step; there is no metabolism.

    Entering lava or an obstacle ends the life; so does the goal, with a reward.
    """

    def __init__(self, id: str) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                gymnasium: Any = importlib.import_module("gymnasium")
                importlib.import_module("minigrid")
        except ImportError as error:
            raise errors.MissingExtra("MiniGrid is not installed: pip install 'atoll[envs]'.") from error
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._env: Any = gymnasium.make(id).unwrapped
        except gymnasium.error.Error as error:
            raise errors.SetupError(
                f"There is no environment {id!r:.60}: e.g. minigrid:MiniGrid-LavaGapS5-v0 ({error!s:.120})."
            ) from error
        self.name = f"minigrid {id}"
        self.actions: Sequence[str] = ("wait", *MOVES)
        self.moves = MOVES
        self.reach = HERE
        self.things: Sequence[str] = ()
        self.patience = 2
        self.is_scored_by_reward = True
        self._env.reset(seed=0)
        self.num_cells = self._env.width * self._env.height
        self._options = [Action(name) for name in self.actions]

    def reset(self, seed: int) -> Observation:
        self._env.reset(seed=seed)
        return self._observation(0.0, False, False)

    def act(self, action: Action) -> Observation:
        if action.name == "wait":
            return self._ended(self._env.step(LEFT), self._place(self._env.agent_pos))
        dx, dy = MOVES[action.name]
        meant = self._place(self._env.agent_pos + np.array((dx, dy)))
        wanted, now = HEADINGS.index(action.name), int(self._env.agent_dir)
        turn = LEFT if (now - wanted) % 4 == 1 else RIGHT
        while int(self._env.agent_dir) != wanted:
            told = self._env.step(turn)
            if told[2] or told[3]:
                return self._ended(told, self._place(self._env.agent_pos))
        ahead = self._place(self._env.front_pos)
        if ahead != meant:  # something came while we turned: nobody meant to run into that
            return replace(self._observation(0.0, False, False), refused=f"{ahead} came in the way")
        return self._ended(self._env.step(FORWARD), ahead)

    def _place(self, spot: Any) -> str:
        x, y = int(spot[0]), int(spot[1])
        if not (0 <= x < self._env.width and 0 <= y < self._env.height):
            return "wall"
        cell = self._env.grid.get(x, y)
        return "floor" if cell is None else str(cell.type)

    def _ended(self, told: Any, entered: str) -> Observation:
        _, reward, is_over, is_late, _ = told
        is_dead = bool(is_over) and float(reward) <= 0
        return self._observation(float(reward), bool(is_over or is_late), is_dead, entered)

    def _observation(self, reward: float, is_over: bool, is_dead: bool, entered: str = "") -> Observation:
        x, y = (int(each) for each in self._env.agent_pos)
        side = range(-SIGHT, SIGHT + 1)
        looks = {(x + dx, y + dy): self._place((x + dx, y + dy)) for dx in side for dy in side}
        cause = entered if is_dead else None
        return Observation(
            int(self._env.step_count),
            (x, y),
            0.0 if is_dead else 1.0,
            {},
            looks,
            looks[x, y],
            harm={entered: 1.0} if is_dead else {},
            gained=("reward",) if reward > 0 else (),
            reward=reward - (1.0 if is_dead else 0.0),
            is_over=is_over,
            cause=cause,
        )

    def candidates(self, seen: Observation) -> Sequence[Action]:
        return self._options

    def is_inside(self, spot: Spot) -> bool:
        return bool(0 <= spot[0] < self._env.width and 0 <= spot[1] < self._env.height)

    def truth(self) -> Mapping[str, bool] | None:
        return {"lava": True, "ball": True}

    def close(self) -> None:
        self._env.close()
