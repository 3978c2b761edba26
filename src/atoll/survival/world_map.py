"""Map of an agent: seen tiles, visits, frontier and cheapest paths."""

import heapq
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from atoll.survival.worlds.world import Cell, Observation

NEIGHBOR_OFFSETS = ((0, -1), (1, 0), (0, 1), (-1, 0))
MAX_PATH_COST = 75.0  # longer paths are never worth it
MAX_CELLS = 500  # per path search; farther cells are not worth the time


@dataclass(slots=True)
class Paths:
    """Cheapest paths from one cell."""

    start: Cell
    costs: Mapping[Cell, float]
    previous: Mapping[Cell, Cell]

    def get_path(self, cell: Cell) -> list[Cell]:
        """Returns the cells on the path, without the start."""
        path = []
        while cell != self.start:
            path.append(cell)
            cell = self.previous[cell]
        return path[::-1]


@dataclass(slots=True)
class WorldMap:
    """Last seen tile of each cell, visits and information gained.

    Attributes:
        changed_at: Tick at which a cell was first seen with its current tile.
        known_tiles: All tiles ever seen.
        frontier: Known cells with unknown neighbors, and how many.
        bits: Surprise of all seen cells in bits, each counted once.
    """

    tiles: dict[Cell, str] = field(default_factory=dict)
    changed_at: dict[Cell, int] = field(default_factory=dict)
    visits: Counter[Cell] = field(default_factory=Counter)
    tile_counts: Counter[str] = field(default_factory=Counter)
    known_tiles: set[str] = field(default_factory=set)
    bits: float = 0.0
    frontier: dict[Cell, int] = field(default_factory=dict)

    def update(self, observation: Observation) -> list[tuple[Cell, str, str, int]]:
        """Adds a view; returns (cell, old tile, new tile, ticks in between) of each change."""
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
        self.frontier.pop(observation.position, None)  # what is not seen from here cannot be seen
        self.visits[observation.position] += 1
        return changes

    def _update_frontier(self, new_cells: list[Cell]) -> None:
        """Updates the frontier for newly seen cells."""
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
        for cell in new_cells:  # cells of the same view counted each other as unknown
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
        """Finds the cheapest paths over known cells.

        Args:
            start: First cell.
            tile_costs: Cost of entering each tile; None is a wall.
            extra_costs: Additional cost of some cells.
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
