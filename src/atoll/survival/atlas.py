"""The map in an agent's head: what it saw where and when, and the cheapest ways over it."""

import heapq
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from atoll.survival.worlds.world import Observation, Spot

AROUND = ((0, -1), (1, 0), (0, 1), (-1, 0))
FARTHEST = 75.0  # nothing is worth a longer way
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
        names: All looks that were ever seen.
        edge: Known cells with unknown neighbours, and how many.
        bits: Surprise of all that was seen so far, in bits, each cell once.
    """

    looks: dict[Spot, str] = field(default_factory=dict)
    changed: dict[Spot, int] = field(default_factory=dict)
    visits: Counter[Spot] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    names: set[str] = field(default_factory=set)
    bits: float = 0.0
    edge: dict[Spot, int] = field(default_factory=dict)

    def see(self, seen: Observation) -> list[tuple[Spot, str, str, int]]:
        """Takes in a view; returns what changed since it was last seen: place, before, now, and after how long."""
        turned = []
        looks, tick = self.looks, seen.tick
        fresh = []
        for spot, look in seen.looks.items():
            before = looks.get(spot)
            if before == look:
                continue
            if before is None:
                self._count(look)
                fresh.append(spot)
            else:
                turned.append((spot, before, look, tick - self.changed[spot]))
            looks[spot] = look
            self.names.add(look)
            self.changed[spot] = tick
        self._push_edge(fresh)
        self.visits[seen.position] += 1
        return turned

    def _push_edge(self, fresh: list[Spot]) -> None:
        """Keeps the edge of the known: cells with a neighbour that nobody has seen, and how many of them."""
        for x, y in fresh:
            unknown = 0
            for dx, dy in AROUND:
                each = (x + dx, y + dy)
                if each not in self.looks:
                    unknown += 1
                elif each in self.edge:
                    self.edge[each] -= 1
                    if self.edge[each] <= 0:
                        del self.edge[each]
            if unknown:
                self.edge[x, y] = unknown
        for spot in fresh:  # those that came with it counted one another
            if spot in self.edge:
                self._recount(spot)

    def _recount(self, spot: Spot) -> None:
        x, y = spot
        unknown = sum((x + dx, y + dy) not in self.looks for dx, dy in AROUND)
        if unknown:
            self.edge[spot] = unknown
        else:
            del self.edge[spot]

    def _count(self, look: str) -> None:
        total = self.kinds.total()
        self.bits -= math.log2((self.kinds[look] + 0.5) / (total + 0.5 * (len(self.kinds) + 2)))
        self.kinds[look] += 1

    def ways(self, start: Spot, prices: Mapping[str, float | None], tolls: Mapping[Spot, float]) -> Ways:
        """Finds the cheapest ways over known cells.

        Args:
            start: Where to begin.
            prices: Of entering each look; None is a wall.
            tolls: What some cells cost besides.
        """
        costs: dict[Spot, float] = {start: 0.0}
        came: dict[Spot, Spot] = {}
        done: set[Spot] = set()
        looks, edge, most = self.looks, [(0.0, start)], MAX_CELLS
        push, pop = heapq.heappush, heapq.heappop
        while edge and most:
            spent, spot = pop(edge)
            if spent > FARTHEST:
                break
            if spot in done:
                continue
            done.add(spot)
            most -= 1
            x, y = spot
            for each in ((x, y - 1), (x + 1, y), (x, y + 1), (x - 1, y)):
                if each in done or each not in looks:
                    continue
                price = prices[looks[each]]
                if price is None:
                    continue
                total = spent + price
                if tolls and each in tolls:
                    total += tolls[each]
                if each not in costs or total < costs[each]:
                    costs[each], came[each] = total, spot
                    push(edge, (total, each))
        return Ways(start, costs, came)
