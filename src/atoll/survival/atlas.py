"""The map in an agent's head: what it saw where and when, and the cheapest ways over it."""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from atoll.survival.worlds.world import Observation, Spot

AROUND = ((0, -1), (1, 0), (0, 1), (-1, 0))
MAX_CELLS = 500  # that one search for a way looks at: what is farther is not worth the thought


@dataclass(slots=True)
class Ways:
    """The cheapest ways from one cell to all that are near enough."""

    start: Spot
    costs: Mapping[Spot, float]
    came: Mapping[Spot, Spot]

    def to(self, spot: Spot) -> list[Spot]:
        """Returns the cells on the way, without the start."""
        way = []
        while spot != self.start:
            way.append(spot)
            spot = self.came[spot]
        return way[::-1]


@dataclass(slots=True)
class Atlas:
    """Looks by place, as last seen; visits; what was learnt in bits.

    Attributes:
        changed: When a cell was first seen as it is now.
        bits: Surprise of all that was seen so far, in bits, each cell once.
    """

    looks: dict[Spot, str] = field(default_factory=dict)
    changed: dict[Spot, int] = field(default_factory=dict)
    visits: Counter[Spot] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    bits: float = 0.0

    def see(self, seen: Observation) -> list[tuple[Spot, str, str, int]]:
        """Takes in a view; returns what changed since it was last seen: place, before, now, and after how long."""
        turned = []
        looks, tick = self.looks, seen.tick
        for spot, look in seen.looks.items():
            before = looks.get(spot)
            if before == look:
                continue
            if before is None:
                self._count(look)
            else:
                turned.append((spot, before, look, tick - self.changed[spot]))
            looks[spot] = look
            self.changed[spot] = tick
        self.visits[seen.position] += 1
        return turned

    def _count(self, look: str) -> None:
        total = self.kinds.total()
        self.bits -= math.log2((self.kinds[look] + 0.5) / (total + 0.5 * (len(self.kinds) + 2)))
        self.kinds[look] += 1

    def num_visited(self) -> int:
        return len(self.visits)

    def unknown_around(self, spot: Spot) -> int:
        """Counts the neighbours of a cell that nobody has seen."""
        x, y = spot
        return sum((x + dx, y + dy) not in self.looks for dx, dy in AROUND)

    def ways(self, start: Spot, cost: Callable[[Spot, str], float | None]) -> Ways:
        """Finds the cheapest ways over known cells; a cost of None is a wall."""
        costs: dict[Spot, float] = {start: 0.0}
        came: dict[Spot, Spot] = {}
        done: set[Spot] = set()
        looks, edge = self.looks, [(0.0, start)]
        while edge and len(done) < MAX_CELLS:
            spent, spot = heapq.heappop(edge)
            if spot in done:
                continue
            done.add(spot)
            x, y = spot
            for dx, dy in AROUND:
                each = (x + dx, y + dy)
                look = looks.get(each)
                if look is None or each in done:
                    continue
                price = cost(each, look)
                if price is None:
                    continue
                total = spent + price
                if total < costs.get(each, math.inf):
                    costs[each], came[each] = total, spot
                    heapq.heappush(edge, (total, each))
        return Ways(start, costs, came)
