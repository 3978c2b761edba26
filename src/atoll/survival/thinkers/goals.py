"""Goals of the rule-based thinker: needs, refuges, collecting, crafting and exploration.

Priority: survive, collect, explore. Goals come from beliefs and the map; without beliefs the agent only explores.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from atoll.survival import risk
from atoll.survival.agent_state import AgentState
from atoll.survival.world_map import NEIGHBOR_OFFSETS, Paths
from atoll.survival.worlds.world import REACH_FACING, Cell, Observation

COMFORT_LEVEL = 0.75  # a resource below this level is a need
NEED_VALUE, URGENT_VALUE, REFUGE_VALUE, NOVELTY_VALUE, REST_VALUE = 70.0, 45.0, 30.0, 12.0, 1.0
COLLECT_VALUE, CRAFT_VALUE, PRIZE_VALUE, FIGHT_VALUE = 12.0, 16.0, 40.0, 30.0
AT_HAND_FACTOR = 2.0  # things within reach are worth more than things to come back for
MAX_STOCK = 7  # of an item; more has no known use
CRITICAL_LEVEL = 0.2  # of a resource; below it the need is urgent
MIN_EXPERIMENT_LIFE = 0.4  # no experiments below this life
MIN_EXPLORE_LIFE = 0.55  # unknown tiles are entered only above this life
ENTER = "enter"  # pseudo-action for stepping on a tile


class Goal(NamedTuple):
    """Destination, and an action there.

    Attributes:
        value: Value in ticks, without the cost of the path.
        cell: Where to stand.
        action: Action there; None if arriving is enough.
        target: Cell to face for the action.
    """

    value: float
    description: str
    cell: Cell
    action: str | None = None
    target: Cell | None = None


def iter_goals(agent: AgentState, observation: Observation, paths: Paths) -> Iterator[Goal]:
    yield from iter_need_goals(agent, observation, paths)
    yield from iter_fight_goals(agent, observation)
    closest = find_nearest(agent, paths)
    yield from iter_collect_goals(agent, observation, paths, closest)
    yield from iter_exploration_goals(agent, observation, paths, closest)
    if agent.settings.has_fear:
        yield from iter_refuge_goals(agent, observation, paths)
        if observation.harm:
            yield from iter_retreat_goals(agent, observation, closest)
    yield Goal(REST_VALUE, "rest", observation.position, "wait" if "wait" in agent.world.actions else None)


def iter_need_goals(agent: AgentState, observation: Observation, paths: Paths) -> Iterator[Goal]:
    """Yields known sources of scarce resources."""
    for need, level in observation.resources.items():
        if level >= COMFORT_LEVEL:
            continue
        value = NEED_VALUE * ((COMFORT_LEVEL - level) / COMFORT_LEVEL) ** 1.5
        for action, tile, chance in agent.beliefs.find_sources(need):
            for cell in iter_cells(agent, tile, observation.tick):
                action_there = None if action == ENTER else action
                goal = Goal(value * chance, f"{action} at {tile} for {need}", cell, action_there)
                yield from iter_reachable(agent, observation, paths, goal)
        for recipe in agent.recipe_book.recipes.values():
            if (
                recipe.gain == need
                and not recipe.find_missing(observation.inventory)
                and not _is_unsafe(agent, observation, level)
            ):
                yield Goal(value, f"{recipe.action} for {need}", observation.position, recipe.action)


def _is_unsafe(agent: AgentState, observation: Observation, level: float) -> bool:
    """Returns whether long actions such as sleep should wait: at night, or near hunters."""
    if not agent.settings.has_fear:
        return False
    return bool(risk.find_hunters(agent, observation)) or (observation.is_dark and level > CRITICAL_LEVEL)


def iter_cells(agent: AgentState, tile: str, tick: int) -> Iterator[Cell]:
    """Yields the cells that have a tile or should have regrown it."""
    world_map = agent.world_map
    renewing = {old: ticks for old, (new, ticks) in agent.beliefs.renewals.items() if new == tile}
    for cell, current_tile in world_map.tiles.items():
        if current_tile == tile or (
            current_tile in renewing and tick - world_map.changed_at[cell] >= renewing[current_tile]
        ):
            yield cell


def iter_reachable(agent: AgentState, observation: Observation, paths: Paths, goal: Goal) -> Iterator[Goal]:
    """Yields a goal if it is reachable: on its cell, or next to it in worlds with `reach` "facing"."""
    cell = goal.cell
    if agent.world.reach != REACH_FACING or goal.action is None:
        if cell in paths.costs:
            yield goal
        return
    if cell == observation.facing:
        yield goal._replace(value=AT_HAND_FACTOR * goal.value, cell=observation.position, target=cell)
        return
    is_wall = agent.beliefs.is_wall(agent.world_map.tiles.get(cell, ""))  # walking toward open ground would enter it
    if is_wall and (neighbor := _find_neighbor(paths, cell)) is not None:
        yield goal._replace(cell=neighbor, target=cell)


def _find_neighbor(paths: Paths, cell: Cell) -> Cell | None:
    """Returns the neighbor of a cell with the cheapest path, if one is reachable."""
    x, y = cell
    neighbors = [near for dx, dy in NEIGHBOR_OFFSETS if (near := (x - dx, y - dy)) in paths.costs]
    return min(neighbors, key=lambda neighbor: paths.costs[neighbor], default=None)


def find_nearest(agent: AgentState, paths: Paths) -> Mapping[str, Cell]:
    """Returns the nearest cell of every tile. Walls count from the cell next to them."""
    nearest_cells: dict[str, Cell] = {}
    best: dict[str, float] = {}
    tiles, is_facing = agent.world_map.tiles, agent.world.reach == REACH_FACING
    for cell, cost in paths.costs.items():
        tile = tiles.get(cell)
        if tile is not None and (tile not in best or cost < best[tile]):
            best[tile], nearest_cells[tile] = cost, cell
        if is_facing:
            for dx, dy in NEIGHBOR_OFFSETS:
                neighbor = (cell[0] + dx, cell[1] + dy)
                tile = tiles.get(neighbor)
                if tile is not None and (tile not in best or cost < best[tile]):
                    best[tile], nearest_cells[tile] = cost, neighbor
    return nearest_cells


def iter_collect_goals(
    agent: AgentState, observation: Observation, paths: Paths, closest: Mapping[str, Cell]
) -> Iterator[Goal]:
    """Yields sources of items that this episode has not gained yet, and missing items of recipes."""
    recipe_book = agent.recipe_book
    needed: dict[str, float] = {}
    for recipe in recipe_book.recipes.values():
        if recipe.gain not in recipe_book.gained_items and recipe.gain not in observation.resources:
            needed |= dict.fromkeys(recipe.find_missing(observation.inventory), CRAFT_VALUE)
            yield from _iter_craft_goals(agent, observation, paths, recipe.action)
    for (action, tile), effect in agent.beliefs.effects.items():
        if tile not in closest:
            continue
        for gain, count in effect.gains.items():
            is_collected = gain in recipe_book.gained_items or gain in observation.resources
            value = needed.get(gain, 0.0 if is_collected else COLLECT_VALUE)
            if (
                not value and recipe_book.has_unknown_recipes and gain in recipe_book.known_items
            ):  # an unknown recipe may need more of it
                value = COLLECT_VALUE * (1.0 - observation.inventory.get(gain, 0) / MAX_STOCK)
            if value <= 0:
                continue
            goal = Goal(value * min(1.0, count / effect.tries), f"{action} at {tile} for {gain}", closest[tile], action)
            if action == ENTER:
                yield goal._replace(action=None, value=PRIZE_VALUE)
            else:
                yield from iter_reachable(agent, observation, paths, goal)


def _iter_craft_goals(agent: AgentState, observation: Observation, paths: Paths, action: str) -> Iterator[Goal]:
    """Yields cells where a known recipe works."""
    recipe = agent.recipe_book.recipes[action]
    if recipe.find_missing(observation.inventory):
        return
    if agent.recipe_book.is_promising(action, observation):
        yield Goal(CRAFT_VALUE, recipe.text, observation.position, action)
        return
    missing_tiles = recipe.nearby - agent.recipe_book.find_nearby(observation)
    for cell, tile in agent.world_map.tiles.items():
        if tile in missing_tiles and (neighbor := _find_neighbor(paths, cell)) is not None:
            yield Goal(CRAFT_VALUE, f"go to {tile}", neighbor)


def iter_exploration_goals(
    agent: AgentState, observation: Observation, paths: Paths, closest: Mapping[str, Cell]
) -> Iterator[Goal]:
    """Yields unseen cells, unentered tiles and untried actions.

    An agent with an unmet need explores even without curiosity.
    """
    novelty_value, urgency = NOVELTY_VALUE * agent.curiosity, URGENT_VALUE * compute_unmet_need(agent, observation)
    if novelty_value <= 0 and urgency <= 0:
        return
    world_map, world = agent.world_map, agent.world
    for cell, unknown in world_map.frontier.items():
        if cell in paths.costs:
            yield Goal(novelty_value * (0.5 + 0.5 * unknown) + urgency, "explore unseen cells", cell)
    for tile, cell in closest.items():
        stats = agent.beliefs.tile_stats.get(tile)
        if (
            (stats is None or not stats.entered)
            and observation.life > MIN_EXPLORE_LIFE
            and not agent.beliefs.is_wall(tile)
        ):
            yield Goal(novelty_value * 1.5, f"try {tile}", cell)
        for action in world.things:
            effect = agent.beliefs.effects.get((action, tile))
            tries = effect.tries if effect else 0.0
            if tries < world.patience and not (effect and effect.gains):
                value = 1.2 * (novelty_value + urgency / 2) / (1.0 + 2.0 * tries / world.patience)
                goal = Goal(value, f"try {action} at {tile}", cell, action)
                yield from iter_reachable(agent, observation, paths, goal)
    if observation.life < MIN_EXPERIMENT_LIFE:
        return
    for action in world.actions:
        is_free = action not in world.moves and action not in world.things and action != "wait"
        if not is_free or action in agent.recipe_book.recipes:
            continue
        if agent.recipe_book.is_promising(action, observation):
            yield Goal(0.8 * novelty_value, f"try {action}", observation.position, action)
        elif observation.inventory:
            yield from _iter_nearby_goals(agent, observation, paths, closest, action, novelty_value)


def _iter_nearby_goals(
    agent: AgentState,
    observation: Observation,
    paths: Paths,
    closest: Mapping[str, Cell],
    action: str,
    novelty_value: float,
) -> Iterator[Goal]:
    """Yields cells next to created tiles, where an action may work that fails here."""
    for tile in agent.recipe_book.made_tiles & closest.keys():
        is_promising = agent.recipe_book.is_promising(action, observation, frozenset({tile}))
        if is_promising and (neighbor := _find_neighbor(paths, closest[tile])) is not None:
            yield Goal(1.5 * novelty_value, f"try {action} near {tile}", neighbor)


def compute_unmet_need(agent: AgentState, observation: Observation) -> float:
    """Returns the urgency of the worst need without a known source."""
    worst = 0.0
    for need, level in observation.resources.items():
        if level < COMFORT_LEVEL:
            tiles = {tile for _, tile, _ in agent.beliefs.find_sources(need)}
            is_craftable = any(recipe.gain == need for recipe in agent.recipe_book.recipes.values())
            if not is_craftable and not tiles.intersection(agent.world_map.tiles.values()):
                worst = max(worst, (COMFORT_LEVEL - level) / COMFORT_LEVEL)
    return worst


def iter_fight_goals(agent: AgentState, observation: Observation) -> Iterator[Goal]:
    """Yields actions against an adjacent hunter, which is too close to escape."""
    if agent.world.reach != REACH_FACING:
        return
    for cell in risk.find_hunters(agent, observation):
        if risk.distance(cell, observation.position) == 1:
            for action in agent.world.things:
                description = f"{action} at {observation.tiles[cell]} in defense"
                yield Goal(FIGHT_VALUE, description, observation.position, action, cell)


def iter_retreat_goals(agent: AgentState, observation: Observation, closest: Mapping[str, Cell]) -> Iterator[Goal]:
    """Yields the nearest cell of every other tile, so that the agent does not rest where it is hurt."""
    for tile, cell in closest.items():
        if tile != observation.current_tile and not agent.beliefs.is_wall(tile):
            yield Goal(REST_VALUE, f"go to {tile} from {observation.current_tile}", cell)


def iter_refuge_goals(agent: AgentState, observation: Observation, paths: Paths) -> Iterator[Goal]:
    """Yields refuges for the night, early enough to reach them."""
    if not agent.beliefs.is_dark_harmful() or not agent.beliefs.refuges:
        return
    ticks_to_dusk = 0.0 if observation.is_dark else agent.ticks_to_dusk(observation.tick)
    for cell, tile in agent.world_map.tiles.items():
        if tile in agent.beliefs.refuges and cell in paths.costs and ticks_to_dusk <= paths.costs[cell] + 2:
            yield Goal(REFUGE_VALUE, f"wait in {tile} until it is light", cell, "wait")
