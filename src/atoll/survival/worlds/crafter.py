"""Crafter (extra `envs`): materials, tools and 22 achievements, observed as tiles and inventory."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from atoll import errors
from atoll.survival.worlds.world import REACH_FACING, Action, Cell, Observation, WorldGuide

VITALS = ("food", "drink", "energy")
MOVES: Mapping[str, Cell] = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}
CRAFTER_NAMES = {"wait": "noop", "north": "move_up", "east": "move_right", "south": "move_down", "west": "move_left"}
VIEW_WIDTH, VIEW_HEIGHT = 4, 3  # cells visible to each side, as in Crafter
MAX_LEVEL, DARK_DAYLIGHT = 9, 0.35
MAX_SLEEP_TICKS = 250
CREATURES = ("zombie", "skeleton", "arrow")

_MOVE_HELP = "turn {name} and go one cell if it is free"
GUIDE = WorldGuide(
    "Reach as many different achievements as possible (collect, eat, drink, sleep, place, craft, defeat), and stay "
    "alive: keep food, drink and energy above 0, and avoid lava and monsters.",
    "1 for each achievement that is reached for the first time in an episode; 0.1 per point of health gained or lost.",
    {
        "wait": "do nothing for one tick",
        **{name: _MOVE_HELP.format(name=name) for name in MOVES},
        "do": "collect, eat, drink or attack what is in front of you; harder materials need a better pickaxe",
        "sleep": "sleep until rested; restores energy, but you cannot defend yourself",
        "place_stone": "place a stone in front of you; needs 1 stone",
        "place_table": "place a table in front of you; needs wood",
        "place_furnace": "place a furnace in front of you; needs stone and a table nearby",
        "place_plant": "plant a sapling on grass in front of you; needs 1 sapling",
        "make_wood_pickaxe": "needs wood and a table nearby",
        "make_stone_pickaxe": "needs wood, stone and a table nearby",
        "make_iron_pickaxe": "needs wood, coal, iron, a table and a furnace nearby",
        "make_wood_sword": "needs wood and a table nearby",
        "make_stone_sword": "needs wood, stone and a table nearby",
        "make_iron_sword": "needs wood, coal, iron, a table and a furnace nearby",
    },
)


class CrafterWorld:
    """Crafter world. `sleep` is one action that lasts until the agent wakes."""

    guide = GUIDE

    def __init__(self, area: int = 64, length: int = 10_000) -> None:
        try:
            module: Any = importlib.import_module("crafter")
        except ImportError as error:
            raise errors.MissingExtra("Crafter is not installed. Run: pip install 'atoll[envs]'.") from error

        class HeadlessEnv(module.Env):  # type: ignore[misc]
            """Skips rendering, which takes two thirds of the time."""

            def render(self, size: Any = None) -> Any:
                return np.zeros((1, 1, 3), np.uint8)

        self._env: Any = HeadlessEnv(area=(area, area), length=length, seed=0)
        constants: Any = importlib.import_module("crafter.constants")
        names: Sequence[str] = constants.actions
        self._action_ids = {name: names.index(CRAFTER_NAMES.get(name, name)) for name in [*CRAFTER_NAMES, *names[5:]]}
        self.name = f"crafter {area}x{area}"
        self.actions: Sequence[str] = list(self._action_ids)
        self.moves, self.reach = MOVES, REACH_FACING
        self.things: Sequence[str] = ("do",)
        self.patience, self.num_cells, self.is_scored_by_reward = 12, area * area, True
        self._area = area
        objects = ("you", "cow", "zombie", "skeleton", "arrow", "plant")
        self._tile_names: Sequence[str] = ["edge", *constants.materials, *objects]
        self._candidates = [Action(name) for name in self.actions]
        self._tick = 0

    def reset(self, seed: int) -> Observation:
        self._env._seed, self._env._episode = seed, 0  # one world per seed; textures are loaded only once
        self._env.reset()
        self._tick, self._unlocked = 0, set[str]()
        return self._make_observation(0.0, self._get_inventory(), self._get_achievements(), False)

    def act(self, action: Action) -> Observation:
        inventory, achievements = self._get_inventory(), self._get_achievements()
        reward, is_over = self._step(self._action_ids[action.name])
        if action.name == "sleep":
            for _ in range(MAX_SLEEP_TICKS):
                if is_over or not self._env._player.sleeping:
                    break
                extra_reward, is_over = self._step(self._action_ids["wait"])
                reward += extra_reward
        return self._make_observation(reward, inventory, achievements, is_over)

    def _step(self, action_id: int) -> tuple[float, bool]:
        _, reward, is_over, _ = self._env.step(action_id)
        self._tick += 1
        return float(reward), bool(is_over)

    def _get_inventory(self) -> dict[str, int]:
        return {name: int(count) for name, count in self._env._player.inventory.items()}

    def _get_achievements(self) -> dict[str, int]:
        return dict(self._env._player.achievements)

    def _make_observation(
        self, reward: float, inventory: Mapping[str, int], achievements: Mapping[str, int], is_over: bool
    ) -> Observation:
        player, current = self._env._player, self._get_inventory()
        gained = [name for name, count in current.items() if count > inventory[name] and name != "health"]
        reached = [name for name, count in self._get_achievements().items() if count > achievements[name]]
        unlocked = [name for name in reached if name not in self._unlocked]
        self._unlocked.update(unlocked)
        tiles = self._get_tiles()
        position = (int(player.pos[0]), int(player.pos[1]))
        damage = max(0, inventory["health"] - current["health"]) / MAX_LEVEL
        cause = self._guess_cause(tiles, position, current) if damage or current["health"] <= 0 else None
        facing = (position[0] + int(player.facing[0]), position[1] + int(player.facing[1]))
        is_dead = current["health"] <= 0
        return Observation(
            self._tick,
            position,
            current["health"] / MAX_LEVEL,
            {name: current[name] / MAX_LEVEL for name in VITALS},
            tiles,
            str(self._env._world[player.pos][0]),
            facing,
            bool(self._env._world.daylight < DARK_DAYLIGHT),
            {cause: damage} if damage and cause else {},
            [*gained, *reached],
            {name: count for name, count in current.items() if count and name not in (*VITALS, "health")},
            unlocked,
            reward,
            is_over=is_over or is_dead,
            cause=cause if is_dead else None,
        )

    def _get_tiles(self) -> dict[Cell, str]:
        """Returns the cells that Crafter shows: nine by seven around the player."""
        codes, (x, y) = self._env._sem_view(), self._env._player.pos
        tiles = {}
        for dx in range(-VIEW_WIDTH, VIEW_WIDTH + 1):
            for dy in range(-VIEW_HEIGHT, VIEW_HEIGHT + 1):
                cell = (int(x) + dx, int(y) + dy)
                is_inside = 0 <= cell[0] < self._area and 0 <= cell[1] < self._area
                tiles[cell] = self._tile_names[codes[cell]] if is_inside else "edge"
        tiles[int(x), int(y)] = str(self._env._world[self._env._player.pos][0])
        return tiles

    def _guess_cause(self, tiles: Mapping[Cell, str], position: Cell, inventory: Mapping[str, int]) -> str:
        """Guesses the cause of damage from what the agent can perceive."""
        if tiles[position] == "lava":
            return "lava"
        x, y = position
        nearby_tiles = {tiles.get((x + dx, y + dy)) for dx in (-1, 0, 1) for dy in (-1, 0, 1)}
        for creature in CREATURES:
            if creature in nearby_tiles:
                return creature
        causes = {"food": "hunger", "drink": "thirst", "energy": "fatigue"}
        return next((cause for name, cause in causes.items() if inventory[name] <= 0), "arrow")

    def candidates(self, observation: Observation) -> Sequence[Action]:
        return self._candidates

    def is_inside(self, cell: Cell) -> bool:
        return 0 <= cell[0] < self._area and 0 <= cell[1] < self._area

    def truth(self) -> Mapping[str, bool] | None:
        return None

    def close(self) -> None:
        """Does nothing: no resources to release."""
