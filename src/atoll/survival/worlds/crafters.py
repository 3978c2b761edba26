"""Crafter (extra `envs`): a world of materials, tools and 22 achievements, by what is in sight and in the bag."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from atoll import errors
from atoll.survival.worlds.world import FACING, Action, Observation, Spot

VITAL = ("food", "drink", "energy")
MOVES: Mapping[str, Spot] = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}
OWN_NAMES = {"wait": "noop", "north": "move_up", "east": "move_right", "south": "move_down", "west": "move_left"}
WIDTH, HEIGHT = 4, 3  # of what one sees to each side: Crafter's own view
FULL, DARK = 9, 0.35
LONGEST_SLEEP = 250
CREATURES = ("zombie", "skeleton", "arrow")


class CrafterWorld:
    """One world of Crafter. `sleep` is one action that lasts until one wakes."""

    def __init__(self, area: int = 64, length: int = 10_000) -> None:
        try:
            module: Any = importlib.import_module("crafter")
        except ImportError as error:
            raise errors.MissingExtra("Crafter is not installed: pip install 'atoll[envs]'.") from error

        class Unseen(module.Env):  # type: ignore[misc]
            """Draws no picture: nobody looks at it, and it takes two thirds of the time."""

            def render(self, size: Any = None) -> Any:
                return np.zeros((1, 1, 3), np.uint8)

        self._env: Any = Unseen(area=(area, area), length=length, seed=0)
        constants: Any = importlib.import_module("crafter.constants")
        names: Sequence[str] = constants.actions
        self._numbers = {own: names.index(OWN_NAMES.get(own, own)) for own in [*OWN_NAMES, *names[5:]]}
        self.name = f"crafter {area}x{area}"
        self.actions: Sequence[str] = list(self._numbers)
        self.moves = MOVES
        self.reach = FACING
        self.things: Sequence[str] = ("do",)
        self.patience = 12
        self.num_cells = area * area
        self.is_scored_by_reward = True
        self._area = area
        self._kinds: Sequence[str] = [
            "edge",
            *constants.materials,
            *("you", "cow", "zombie", "skeleton", "arrow", "plant"),
        ]
        self._options = [Action(name) for name in self.actions]
        self._tick = 0

    def reset(self, seed: int) -> Observation:
        self._env._seed, self._env._episode = seed, 0  # one world per seed, and the textures are loaded once
        self._env.reset()
        self._tick, self._unlocked = 0, set[str]()
        return self._observation(0.0, self._bag(), self._done(), False)

    def act(self, action: Action) -> Observation:
        bag, done = self._bag(), self._done()
        reward, is_over = self._step(self._numbers[action.name])
        if action.name == "sleep":
            for _ in range(LONGEST_SLEEP):
                if is_over or not self._env._player.sleeping:
                    break
                more, is_over = self._step(self._numbers["wait"])
                reward += more
        return self._observation(reward, bag, done, is_over)

    def _step(self, number: int) -> tuple[float, bool]:
        _, reward, is_over, _ = self._env.step(number)
        self._tick += 1
        return float(reward), bool(is_over)

    def _bag(self) -> dict[str, int]:
        return {name: int(count) for name, count in self._env._player.inventory.items()}

    def _done(self) -> dict[str, int]:
        return dict(self._env._player.achievements)

    def _observation(
        self, reward: float, bag: Mapping[str, int], done: Mapping[str, int], is_over: bool
    ) -> Observation:
        player, now = self._env._player, self._bag()
        gained = [name for name, count in now.items() if count > bag[name] and name != "health"]
        reached = [name for name, count in self._done().items() if count > done[name]]
        unlocked = [name for name in reached if name not in self._unlocked]
        self._unlocked.update(unlocked)
        looks = self._looks()
        position = (int(player.pos[0]), int(player.pos[1]))
        lost = max(0, bag["health"] - now["health"]) / FULL
        cause = self._cause(looks, position, now) if lost or now["health"] <= 0 else None
        facing = (position[0] + int(player.facing[0]), position[1] + int(player.facing[1]))
        is_dead = now["health"] <= 0
        return Observation(
            self._tick,
            position,
            now["health"] / FULL,
            {name: now[name] / FULL for name in VITAL},
            looks,
            str(self._env._world[player.pos][0]),
            facing,
            bool(self._env._world.daylight < DARK),
            {cause: lost} if lost and cause else {},
            [*gained, *reached],
            {name: count for name, count in now.items() if count and name not in (*VITAL, "health")},
            unlocked,
            reward,
            is_over=is_over or is_dead,
            cause=cause if is_dead else None,
        )

    def _looks(self) -> dict[Spot, str]:
        """Returns the cells that Crafter itself shows: nine by seven around the player."""
        codes, (x, y) = self._env._sem_view(), self._env._player.pos
        found = {}
        for dx in range(-WIDTH, WIDTH + 1):
            for dy in range(-HEIGHT, HEIGHT + 1):
                spot = (int(x) + dx, int(y) + dy)
                inside = 0 <= spot[0] < self._area and 0 <= spot[1] < self._area
                found[spot] = self._kinds[codes[spot]] if inside else "edge"
        found[int(x), int(y)] = str(self._env._world[self._env._player.pos][0])
        return found

    def _cause(self, looks: Mapping[Spot, str], position: Spot, bag: Mapping[str, int]) -> str:
        """Guesses what took life, as whoever felt it would."""
        if looks[position] == "lava":
            return "lava"
        x, y = position
        near = {looks.get((x + dx, y + dy)) for dx in (-1, 0, 1) for dy in (-1, 0, 1)}
        for creature in CREATURES:
            if creature in near:
                return creature
        empty = {"food": "hunger", "drink": "thirst", "energy": "fatigue"}
        return next((felt for name, felt in empty.items() if bag[name] <= 0), "arrow")

    def candidates(self, seen: Observation) -> Sequence[Action]:
        return self._options

    def is_inside(self, spot: Spot) -> bool:
        return 0 <= spot[0] < self._area and 0 <= spot[1] < self._area

    def truth(self) -> Mapping[str, bool] | None:
        return None

    def close(self) -> None:
        """Ends nothing: there is nothing open."""
