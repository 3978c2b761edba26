"""Four baseline policies: wait, random, greedy, and an oracle that sees everything."""

import heapq
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Protocol

from atoll.survival.grid.body import ACTIONS, get_visible_tiles
from atoll.survival.grid.survival_grid import SurvivalGrid
from atoll.survival.grid.terrain import BUSH, MOVES, NO_HAZARD, POOL, SHELTER, Cell, distance, get_neighbors

type Cost = Callable[[Cell], float | None]

EAT_BELOW = 0.55  # the greedy policy eats below this level
MOVE_NAMES: Mapping[Cell, str] = {offset: name for name, offset in MOVES.items()}


class Policy(Protocol):
    """Chooses actions in a world."""

    def __call__(self, world: SurvivalGrid) -> int:
        """Returns the index of an action."""


class WaitPolicy:
    def __call__(self, world: SurvivalGrid) -> int:
        return ACTIONS.index("wait")


class RandomPolicy:
    def __init__(self, seed: int) -> None:
        self._rng = Random(f"dice/{seed}")

    def __call__(self, world: SurvivalGrid) -> int:
        return self._rng.randrange(len(ACTIONS))


class GreedyPolicy:
    """Goes straight to the nearest visible food or water when needed, else wanders."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"greedy/{seed}")
        self._heading = "north"

    def __call__(self, world: SurvivalGrid) -> int:
        body, terrain = world.body, world.terrain
        tiles = get_visible_tiles(terrain, body)
        needs = [thing for thing, level in ((BUSH, body.food), (POOL, body.water)) if level < EAT_BELOW]
        needs.sort(key=lambda thing: body.food if thing == BUSH else body.water)
        for need in needs:
            targets = [cell for cell, tile in tiles.items() if tile == need or terrain.things.get(cell) == need]
            targets = [cell for cell in targets if cell in tiles]
            if body.cell in targets:
                return ACTIONS.index("gather")
            path = find_path(body.cell, targets, lambda cell: 1.0 if cell in tiles and terrain.is_open(cell) else None)
            if path:
                return _move_toward(body.cell, path[0])
        return self._wander(world)

    def _wander(self, world: SurvivalGrid) -> int:
        x, y = world.body.cell
        dx, dy = MOVES[self._heading]
        if self._rng.random() < 0.1 or not world.terrain.is_open((x + dx, y + dy)):
            self._heading = self._rng.choice(list(MOVES))
        return ACTIONS.index(self._heading)


class OraclePolicy:
    """Knows the map, the meaning of signs and all beasts: an approximate upper bound for an agent."""

    def __call__(self, world: SurvivalGrid) -> int:
        body, terrain = world.body, world.terrain
        threats = terrain.beasts

        def cost(cell: Cell) -> float | None:
            if not terrain.is_open(cell) or terrain.get_hazard(cell) != NO_HAZARD:
                return None
            beast_distance = min((distance(cell, beast) for beast in threats), default=9)
            return 1.0 + (20.0 if beast_distance <= 1 else 5.0 if beast_distance == 2 else 0.0)

        for thing in self._list_targets(world):
            targets = [cell for cell, kind in terrain.things.items() if kind == thing]
            if body.cell in targets:
                return ACTIONS.index("wait" if thing == SHELTER else "gather")
            path = find_path(body.cell, targets, cost)
            if path:
                return _move_toward(body.cell, path[0])
        return ACTIONS.index("wait")

    def _list_targets(self, world: SurvivalGrid) -> Sequence[str]:
        """Returns the cells to go to, the most urgent need first; a shelter otherwise."""
        body, terrain = world.body, world.terrain
        levels = sorted(((body.food, BUSH), (body.water, POOL)))
        urgent = [thing for level, thing in levels if level < 0.35]
        useful = [thing for level, thing in levels if level < 0.6]
        return [*urgent, *([SHELTER] if terrain.is_night else []), *useful, SHELTER]


def find_path(start: Cell, targets: Sequence[Cell], cost: Cost) -> Sequence[Cell]:
    """Returns the cheapest path to one of several cells, without the start; empty if none is reachable."""
    target_set = set(targets)
    best_costs: dict[Cell, float] = {start: 0.0}
    previous: dict[Cell, Cell] = {}
    frontier = [(0.0, start)]
    while frontier:
        cost_so_far, cell = heapq.heappop(frontier)
        if cell in target_set and cell != start:
            path = [cell]
            while previous[path[-1]] != start:
                path.append(previous[path[-1]])
            return path[::-1]
        if cost_so_far > best_costs[cell]:
            continue
        for neighbor in get_neighbors(cell):
            step_cost = cost(neighbor)
            if step_cost is not None and cost_so_far + step_cost < best_costs.get(neighbor, float("inf")):
                best_costs[neighbor], previous[neighbor] = cost_so_far + step_cost, cell
                heapq.heappush(frontier, (cost_so_far + step_cost, neighbor))
    return ()


def _move_toward(cell: Cell, target: Cell) -> int:
    return ACTIONS.index(MOVE_NAMES[target[0] - cell[0], target[1] - cell[1]])
