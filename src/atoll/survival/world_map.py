"""The map in an agent's head: what it saw where and when, and the cheapest ways over it."""

import heapq
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from atoll.survival.worlds.world import Cell, Observation

NEIGHBOR_OFFSETS = ((0, -1), (1, 0), (0, 1), (-1, 0))
MAX_PATH_COST = 75.0  # nothing is worth a longer way
MAX_CELLS = 500  # that one search for a way looks at: what is farther is not worth the thought


@dataclass(slots=True)
class Paths:
    """The cheapest ways from one cell to all that are near enough."""

    start: Cell
    costs: Mapping[Cell, float]
    previous: Mapping[Cell, Cell]

    def get_path(self, cell: Cell) -> list[Cell]:
        """Returns the cells on the way, without the start."""
        path = []
        while cell != self.start:
            path.append(cell)
            cell = self.previous[cell]
        return path[::-1]


@dataclass(slots=True)
class WorldMap:
    """Looks by place, as last seen; visits; what was learnt in bits.

    Attributes:
        changed: When a cell was first seen as it is now.
        names: All looks that were ever seen.
        edge: Known cells with unknown neighbours, and how many.
        bits: Surprise of all that was seen so far, in bits, each cell once.
    """

    tiles: dict[Cell, str] = field(default_factory=dict)
    changed_at: dict[Cell, int] = field(default_factory=dict)
    visits: Counter[Cell] = field(default_factory=Counter)
    tile_counts: Counter[str] = field(default_factory=Counter)
    known_tiles: set[str] = field(default_factory=set)
    bits: float = 0.0
    frontier: dict[Cell, int] = field(default_factory=dict)

    def update(self, observation: Observation) -> list[tuple[Cell, str, str, int]]:
        """Takes in a view; returns what changed since it was last seen: place, before, now, and after how long."""
        changes = []
        tiles, tick = self.tiles, observation.tick
        new_cells = []
        for cell, tile in observation.tiles.items():
            old_tile = tiles.get(cell)
            if old_tile == tile:
                continue
            if old_tile is None:
                self._count_tile(tile)
                new_cells.append(cell)
            else:
                changes.append((cell, old_tile, tile, tick - self.changed_at[cell]))
            tiles[cell] = tile
            self.known_tiles.add(tile)
            self.changed_at[cell] = tick
        self._update_frontier(new_cells)
        self.visits[observation.position] += 1
        return changes

    def _update_frontier(self, new_cells: list[Cell]) -> None:
        """Keeps the edge of the known: cells with a neighbour that nobody has seen, and how many of them."""
        for x, y in new_cells:
            unknown = 0
            for dx, dy in NEIGHBOR_OFFSETS:
                neighbor = (x + dx, y + dy)
                if neighbor not in self.tiles:
                    unknown += 1
                elif neighbor in self.frontier:
                    self.frontier[neighbor] -= 1
                    if self.frontier[neighbor] <= 0:
                        del self.frontier[neighbor]
            if unknown:
                self.frontier[x, y] = unknown
        for cell in new_cells:  # those that came with it counted one another
            if cell in self.frontier:
                self._update_unknown_count(cell)

    def _update_unknown_count(self, cell: Cell) -> None:
        x, y = cell
        unknown = sum((x + dx, y + dy) not in self.tiles for dx, dy in NEIGHBOR_OFFSETS)
        if unknown:
            self.frontier[cell] = unknown
        else:
            del self.frontier[cell]

    def _count_tile(self, tile: str) -> None:
        total = self.tile_counts.total()
        self.bits -= math.log2((self.tile_counts[tile] + 0.5) / (total + 0.5 * (len(self.tile_counts) + 2)))
        self.tile_counts[tile] += 1

    def find_paths(
        self, start: Cell, tile_costs: Mapping[str, float | None], extra_costs: Mapping[Cell, float]
    ) -> Paths:
        """Finds the cheapest ways over known cells.

        Args:
            start: Where to begin.
            prices: Of entering each look; None is a wall.
            tolls: What some cells cost besides.
        """
        costs: dict[Cell, float] = {start: 0.0}
        previous: dict[Cell, Cell] = {}
        visited: set[Cell] = set()
        tiles, frontier, remaining_cells = self.tiles, [(0.0, start)], MAX_CELLS
        push, pop = heapq.heappush, heapq.heappop
        while frontier and remaining_cells:
            cost, cell = pop(frontier)
            if cost > MAX_PATH_COST:
                break
            if cell in visited:
                continue
            visited.add(cell)
            remaining_cells -= 1
            x, y = cell
            for neighbor in ((x, y - 1), (x + 1, y), (x, y + 1), (x - 1, y)):
                if neighbor in visited or neighbor not in tiles:
                    continue
                step_cost = tile_costs[tiles[neighbor]]
                if step_cost is None:
                    continue
                total_cost = cost + step_cost
                if extra_costs and neighbor in extra_costs:
                    total_cost += extra_costs[neighbor]
                if neighbor not in costs or total_cost < costs[neighbor]:
                    costs[neighbor], previous[neighbor] = total_cost, cell
                    push(frontier, (total_cost, neighbor))
        return Paths(start, costs, previous)
