"""What may come of going somewhere: the features of fear, and the risk of every cell."""

import math
from collections.abc import Sequence

from atoll.survival.mind import Mind
from atoll.survival.worlds.world import Observation, Spot

HUNT_RANGE = 4
UNKNOWN, BITE = 0.18, 0.2  # damage that is assumed of what nobody has met, and of what hunts


def distance(one: Spot, other: Spot) -> int:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def hunters(mind: Mind, seen: Observation) -> list[Spot]:
    """Returns where creatures are that are known to hunt."""
    facts = mind.lore.facts
    return [spot for spot, look in seen.looks.items() if look in facts and facts[look].hunts]


def features(mind: Mind, seen: Observation, path: Sequence[Spot]) -> tuple[float, ...]:
    """Returns what a forecast is made from, in the order of `fear.FEATURES`.

    Args:
        mind: Who asks.
        seen: What there is now.
        path: The cells that will be entered, as far as that is planned.
    """
    lore, horizon = mind.lore, mind.forecaster.horizon
    looks = [mind.atlas.looks.get(spot, "") for spot in path[:horizon]]
    safe = math.prod(1.0 - lore.risk(look, mind.prior) for look in looks if look not in ("", seen.here))
    unknown = sum(look not in lore.facts or not lore.facts[look].entered for look in looks)
    near = [distance(spot, seen.position) for spot in hunters(mind, seen)]
    prowling = sum(max(0.0, 1.0 - (each - 1) / HUNT_RANGE) for each in near) * (1.5 if seen.is_dark else 1.0)
    ends_on = looks[-1] if looks else seen.here
    is_out = ends_on not in lore.refuges
    is_bad = 1.0 if lore.is_dark_bad() or not lore.dark_ticks else 0.0
    standing = lore.facts.get(seen.here)
    return (
        1.0,
        1.0 - safe,
        prowling,
        max((math.exp(-_ticks_left(mind, name, level) / horizon) for name, level in seen.resources.items()), default=0),
        float(any(level <= 0 for level in seen.resources.values())),
        float(seen.is_dark and is_out) * is_bad,
        float(not seen.is_dark and is_out and mind.ticks_to_dusk(seen.tick) < horizon) * is_bad,
        float(bool(seen.harm)),
        float(standing is not None and standing.hurt > 0.5 * standing.entered),
        unknown / horizon,
    )


def _ticks_left(mind: Mind, name: str, level: float) -> float:
    return level / max(1e-4, mind.rates.get(name, 0.02))


def exposure(mind: Mind, look: str) -> float:
    """Returns the damage to expect from entering a look."""
    fact = mind.lore.facts.get(look)
    return mind.lore.risk(look, mind.prior) * (fact.mean_damage() if fact is not None else UNKNOWN)


def tolls(mind: Mind, seen: Observation) -> dict[Spot, float]:
    """Returns the damage to expect besides in the cells around whoever hunts."""
    found: dict[Spot, float] = {}
    for x, y in hunters(mind, seen):
        for dx in range(-3, 4):
            for dy in range(abs(dx) - 3, 4 - abs(dx)):
                gap = abs(dx) + abs(dy)
                harm = BITE * (1.0 if gap == 0 else 0.5 if gap == 1 else 0.12) * (1.5 if seen.is_dark else 1.0)
                found[x + dx, y + dy] = found.get((x + dx, y + dy), 0.0) + harm
    return found


def evasive(mind: Mind, seen: Observation) -> str:
    """Returns the move, or the waiting, that exposes least."""
    (x, y), near = seen.position, tolls(mind, seen)
    best, least = "wait", exposure(mind, seen.here) + near.get(seen.position, 0.0) + 0.01
    for name, (dx, dy) in mind.world.moves.items():
        there = (x + dx, y + dy)
        look = seen.looks.get(there)
        if look is None or mind.lore.is_wall(look):
            continue
        found = exposure(mind, look) + near.get(there, 0.0)
        if found < least:
            best, least = name, found
    return best if best in mind.world.actions else mind.world.actions[0]
