"""Four ways to live, to measure an agent against: waiting, dice, greed, and knowing everything."""

import heapq
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Protocol

from atoll.survival.grid.body import ACTIONS
from atoll.survival.grid.presets import NOTHING
from atoll.survival.grid.survivalgrid import SurvivalGrid
from atoll.survival.grid.terrain import BUSH, POOL, SHELTER, STEPS, Spot, around, distance
from atoll.survival.grid.views import visible

type Cost = Callable[[Spot], float | None]

ENOUGH = 0.55  # greed eats below it
NAMES: Mapping[Spot, str] = {step: name for name, step in STEPS.items()}


class Policy(Protocol):
    """Says what to do in a world."""

    def __call__(self, world: SurvivalGrid) -> int:
        """Returns the number of an action."""


class Wait:
    """Does nothing, and dies of it."""

    def __call__(self, world: SurvivalGrid) -> int:
        return ACTIONS.index("wait")


class Dice:
    """Does anything."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"dice/{seed}")

    def __call__(self, world: SurvivalGrid) -> int:
        return self._rng.randrange(len(ACTIONS))


class Greedy:
    """Goes straight for the nearest food or water in sight when it needs some; otherwise wanders on."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"greedy/{seed}")
        self._heading = "north"

    def __call__(self, world: SurvivalGrid) -> int:
        body, terrain = world.body, world.terrain
        seen = visible(terrain, body)
        needs = [thing for thing, level in ((BUSH, body.food), (POOL, body.water)) if level < ENOUGH]
        needs.sort(key=lambda thing: body.food if thing == BUSH else body.water)
        for need in needs:
            targets = [spot for spot, look in seen.items() if look == need or terrain.things.get(spot) == need]
            targets = [spot for spot in targets if spot in seen]
            if body.spot in targets:
                return ACTIONS.index("gather")
            way = route(body.spot, targets, lambda spot: 1.0 if spot in seen and terrain.is_open(spot) else None)
            if way:
                return _towards(body.spot, way[0])
        return self._wander(world)

    def _wander(self, world: SurvivalGrid) -> int:
        x, y = world.body.spot
        dx, dy = STEPS[self._heading]
        if self._rng.random() < 0.1 or not world.terrain.is_open((x + dx, y + dy)):
            self._heading = self._rng.choice(list(STEPS))
        return ACTIONS.index(self._heading)


class Ceiling:
    """Knows the whole map, what signs mean and where beasts are: what an agent could do at best, about."""

    def __call__(self, world: SurvivalGrid) -> int:
        body, terrain = world.body, world.terrain
        threats = terrain.beasts

        def cost(spot: Spot) -> float | None:
            if not terrain.is_open(spot) or terrain.hazard(spot) != NOTHING:
                return None
            near = min((distance(spot, beast) for beast in threats), default=9)
            return 1.0 + (20.0 if near <= 1 else 5.0 if near == 2 else 0.0)

        for thing in self._wishes(world):
            targets = [spot for spot, each in terrain.things.items() if each == thing]
            if body.spot in targets:
                return ACTIONS.index("wait" if thing == SHELTER else "gather")
            way = route(body.spot, targets, cost)
            if way:
                return _towards(body.spot, way[0])
        return ACTIONS.index("wait")

    def _wishes(self, world: SurvivalGrid) -> Sequence[str]:
        """Returns what to look for, the most urgent first; the rest of the time one sits in a shelter."""
        body, terrain = world.body, world.terrain
        levels = sorted(((body.food, BUSH), (body.water, POOL)))
        urgent = [thing for level, thing in levels if level < 0.35]
        useful = [thing for level, thing in levels if level < 0.6]
        return [*urgent, *([SHELTER] if terrain.is_night else []), *useful, SHELTER]


def route(start: Spot, targets: Sequence[Spot], cost: Cost) -> Sequence[Spot]:
    """Returns the cheapest way from a cell to one of several, without the start; empty if there is none."""
    wanted = set(targets)
    best: dict[Spot, float] = {start: 0.0}
    came: dict[Spot, Spot] = {}
    edge = [(0.0, start)]
    while edge:
        spent, spot = heapq.heappop(edge)
        if spot in wanted and spot != start:
            way = [spot]
            while came[way[-1]] != start:
                way.append(came[way[-1]])
            return way[::-1]
        if spent > best[spot]:
            continue
        for each in around(spot):
            price = cost(each)
            if price is not None and spent + price < best.get(each, float("inf")):
                best[each], came[each] = spent + price, spot
                heapq.heappush(edge, (spent + price, each))
    return ()


def _towards(spot: Spot, there: Spot) -> int:
    return ACTIONS.index(NAMES[there[0] - spot[0], there[1] - spot[1]])
