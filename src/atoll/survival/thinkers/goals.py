"""What is worth going for at a moment: needs, refuges, things to collect and to make, and whatever is new.

Order of worth: survive, collect, explore. All of it comes from what is known; an empty head only finds things new.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from atoll.survival import foresight
from atoll.survival.atlas import AROUND, Ways
from atoll.survival.mind import Mind
from atoll.survival.worlds.world import FACING, Observation, Spot

COMFORT = 0.75  # below this level a resource is looked for
NEED, DIRE, REFUGE, NOVEL, REST = 70.0, 45.0, 30.0, 12.0, 1.0
WANTED, MADE, PRIZE, FIGHT = 12.0, 16.0, 40.0, 30.0
AT_HAND = 2.0  # what lies before one's hands is worth more than what one has to come back for
HOARD = 7  # of a thing: more is no use that anybody knows of
LOWEST = 0.2  # of a resource: below it nothing is put off
CALM = 0.4  # life below which nothing is tried for its own sake
BOLD = 0.55  # life above which something unknown is tried
ENTER = "enter"  # the deed of stepping on something


class Goal(NamedTuple):
    """Somewhere to go and something to do there.

    Attributes:
        value: What it is worth, in ticks, before the way is paid.
        spot: Where to stand.
        act: What to do there; None: being there is all.
        target: The cell to do it to, where one has to face it.
    """

    value: float
    what: str
    spot: Spot
    act: str | None = None
    target: Spot | None = None


def goals(mind: Mind, seen: Observation, ways: Ways) -> Iterator[Goal]:
    """Yields everything that could be gone for."""
    yield from needs(mind, seen, ways)
    yield from fights(mind, seen)
    closest = nearest(mind, ways)
    yield from collects(mind, seen, ways, closest)
    yield from wonders(mind, seen, ways, closest)
    if mind.temper.has_fear:
        yield from refuges(mind, seen, ways)
    yield Goal(REST, "rest", seen.position, "wait" if "wait" in mind.world.actions else None)


def needs(mind: Mind, seen: Observation, ways: Ways) -> Iterator[Goal]:
    """Yields where to find what is running out, as far as that is known."""
    for need, level in seen.resources.items():
        if level >= COMFORT:
            continue
        worth = NEED * ((COMFORT - level) / COMFORT) ** 1.5
        for action, look, chance in mind.lore.sources(need):
            for spot in places(mind, look, seen.tick):
                yield from at(mind, seen, ways, Goal(worth * chance, f"{action} at {look} for {need}", spot, action))
        for recipe in mind.workshop.recipes.values():
            if recipe.gain == need and not recipe.missing(seen.held) and not _is_unsafe(mind, seen, level):
                yield Goal(worth, f"{recipe.action} for {need}", seen.position, recipe.action)


def _is_unsafe(mind: Mind, seen: Observation, level: float) -> bool:
    """Tells whether what takes long, such as sleep, had better wait: in the dark, or while something hunts."""
    if not mind.temper.has_fear:
        return False
    return bool(foresight.hunters(mind, seen)) or (seen.is_dark and level > LOWEST)


def places(mind: Mind, look: str, tick: int) -> Iterator[Spot]:
    """Yields where something is, or should have grown again by now."""
    atlas = mind.atlas
    renewing = {old: ticks for old, (new, ticks) in mind.lore.renewals.items() if new == look}
    for spot, each in atlas.looks.items():
        if each == look or (each in renewing and tick - atlas.changed[spot] >= renewing[each]):
            yield spot


def at(mind: Mind, seen: Observation, ways: Ways, goal: Goal) -> Iterator[Goal]:
    """Yields a goal as it can be reached: on its cell, or, where one faces things, before it."""
    spot = goal.spot
    if mind.world.reach != FACING or goal.act is None:
        if spot in ways.costs:
            yield goal
        return
    if spot == seen.facing:
        yield goal._replace(value=AT_HAND * goal.value, spot=seen.position, target=spot)
    elif mind.lore.is_wall(mind.atlas.looks.get(spot, "")):  # whoever walks towards open ground stands on it
        x, y = spot
        near = [each for dx, dy in AROUND if (each := (x - dx, y - dy)) in ways.costs]
        if near:
            yield goal._replace(spot=min(near, key=lambda each: ways.costs[each]), target=spot)


def nearest(mind: Mind, ways: Ways) -> Mapping[str, Spot]:
    """Returns the nearest cell of every look; walls count from the cell before them."""
    found: dict[str, Spot] = {}
    best: dict[str, float] = {}
    looks, is_facing = mind.atlas.looks, mind.world.reach == FACING
    for spot, cost in ways.costs.items():
        look = looks.get(spot)
        if look is not None and (look not in best or cost < best[look]):
            best[look], found[look] = cost, spot
        if is_facing:
            for dx, dy in AROUND:
                each = (spot[0] + dx, spot[1] + dy)
                look = looks.get(each)
                if look is not None and (look not in best or cost < best[look]):
                    best[look], found[look] = cost, each
    return found


def collects(mind: Mind, seen: Observation, ways: Ways, closest: Mapping[str, Spot]) -> Iterator[Goal]:
    """Yields what is known to give something that this life has not had yet, and what a recipe lacks."""
    shop = mind.workshop
    wanted: dict[str, float] = {}
    for recipe in shop.recipes.values():
        if recipe.gain not in shop.had and recipe.gain not in seen.resources:
            wanted |= dict.fromkeys(recipe.missing(seen.held), MADE)
            yield from _crafted(mind, seen, ways, recipe.action)
    for (action, look), use in mind.lore.uses.items():
        if look not in closest:
            continue
        for gain, count in use.gains.items():
            worth = wanted.get(gain, 0.0 if gain in shop.had or gain in seen.resources else WANTED)
            if not worth and shop.is_open and gain in shop.items:  # more of it may be what some deed lacks
                worth = WANTED * (1.0 - seen.held.get(gain, 0) / HOARD)
            if worth <= 0:
                continue
            goal = Goal(worth * min(1.0, count / use.tries), f"{action} at {look} for {gain}", closest[look], action)
            if action == ENTER:
                yield goal._replace(act=None, value=PRIZE)
            else:
                yield from at(mind, seen, ways, goal)


def _crafted(mind: Mind, seen: Observation, ways: Ways, action: str) -> Iterator[Goal]:
    """Yields where a known recipe can be carried out."""
    recipe = mind.workshop.recipes[action]
    if recipe.missing(seen.held):
        return
    if mind.workshop.is_promising(action, seen):
        yield Goal(MADE, recipe.text, seen.position, action)
        return
    lacking = recipe.near - mind.workshop.near(seen)
    for spot, look in mind.atlas.looks.items():
        if look in lacking:
            x, y = spot
            near = [each for dx, dy in AROUND if (each := (x - dx, y - dy)) in ways.costs]
            if near:
                yield Goal(MADE, f"go to {look}", min(near, key=lambda each: ways.costs[each]))


def wonders(mind: Mind, seen: Observation, ways: Ways, closest: Mapping[str, Spot]) -> Iterator[Goal]:
    """Yields what is new: unseen ground, looks that nobody has entered, deeds that nobody has tried.

    Whoever lacks something and knows no help looks around, curious or not.
    """
    keen, lost = NOVEL * mind.curiosity, DIRE * helpless(mind, seen)
    if keen <= 0 and lost <= 0:
        return
    atlas, world = mind.atlas, mind.world
    for spot, unknown in atlas.edge.items():
        if spot in ways.costs:
            yield Goal(keen * (0.5 + 0.5 * unknown) + lost, "see what is beyond", spot)
    for look, spot in closest.items():
        fact = mind.lore.facts.get(look)
        if (fact is None or not fact.entered) and seen.life > BOLD and not mind.lore.is_wall(look):
            yield Goal(keen * 1.5, f"try {look}", spot)
        for deed in world.things:
            use = mind.lore.uses.get((deed, look))
            tries = use.tries if use else 0.0
            if tries < world.patience and not (use and use.gains):
                worth = 1.2 * (keen + lost / 2) / (1.0 + 2.0 * tries / world.patience)
                yield from at(mind, seen, ways, Goal(worth, f"{deed} at {look}, to see", spot, deed))
    if seen.life < CALM:
        return
    for deed in world.actions:
        is_free = deed not in world.moves and deed not in world.things and deed != "wait"
        if not is_free or deed in mind.workshop.recipes:
            continue
        if mind.workshop.is_promising(deed, seen):
            yield Goal(0.8 * keen, f"{deed}, to see", seen.position, deed)
        elif seen.held:
            yield from _beside(mind, seen, ways, closest, deed, keen)


def _beside(
    mind: Mind, seen: Observation, ways: Ways, closest: Mapping[str, Spot], deed: str, keen: float
) -> Iterator[Goal]:
    """Yields going to what deeds have made: something may work beside it that does not work here."""
    for look in mind.workshop.made & closest.keys():
        if mind.workshop.is_promising(deed, seen, frozenset({look})):
            x, y = closest[look]
            near = [each for dx, dy in AROUND if (each := (x - dx, y - dy)) in ways.costs]
            if near:
                stand = min(near, key=lambda each: ways.costs[each])
                yield Goal(1.5 * keen, f"{deed} near {look}, to see", stand)


def helpless(mind: Mind, seen: Observation) -> float:
    """Returns how urgent the worst need is for which no help is known anywhere near."""
    worst = 0.0
    for need, level in seen.resources.items():
        if level < COMFORT:
            looks = {look for _, look, _ in mind.lore.sources(need)}
            is_made = any(recipe.gain == need for recipe in mind.workshop.recipes.values())
            if not is_made and not looks.intersection(mind.atlas.looks.values()):
                worst = max(worst, (COMFORT - level) / COMFORT)
    return worst


def fights(mind: Mind, seen: Observation) -> Iterator[Goal]:
    """Yields doing something to whoever hunts and stands beside: running does not help any more."""
    if mind.world.reach != FACING:
        return
    for spot in foresight.hunters(mind, seen):
        if foresight.distance(spot, seen.position) == 1:
            for deed in mind.world.things:
                what = f"{deed} at {seen.looks[spot]}, to be rid of it"
                yield Goal(FIGHT, what, seen.position, deed, spot)


def refuges(mind: Mind, seen: Observation, ways: Ways) -> Iterator[Goal]:
    """Yields where to wait for the light, in time."""
    if not mind.lore.is_dark_bad() or not mind.lore.refuges:
        return
    dusk = 0.0 if seen.is_dark else mind.ticks_to_dusk(seen.tick)
    for spot, look in mind.atlas.looks.items():
        if look in mind.lore.refuges and spot in ways.costs and dusk <= ways.costs[spot] + 2:
            yield Goal(REFUGE, f"wait in {look} until it is light", spot, "wait")
