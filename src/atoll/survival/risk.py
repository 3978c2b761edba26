"""Risk of moves: the features of the damage forecast, and the expected damage per cell."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from atoll.survival.agent_state import AgentState
from atoll.survival.plan import ActionPlan, Evasion
from atoll.survival.worlds.world import REACH_FACING, Action, Cell, Observation

HUNT_RANGE, NEAR_HUNTER = 4, 2
URGENT_LEVEL = 0.2  # of a resource that is about to run out
UNKNOWN_DAMAGE, HUNTER_DAMAGE = 0.18, 0.2  # damage assumed for unknown tiles and for hunters
SAFER_MARGIN = 0.1  # a safer action has a forecast lower by this much


def distance(first: Cell, second: Cell) -> int:
    return abs(first[0] - second[0]) + abs(first[1] - second[1])


def find_hunters(agent: AgentState, observation: Observation) -> list[Cell]:
    tile_stats = agent.beliefs.tile_stats
    return [cell for cell, tile in observation.tiles.items() if tile in tile_stats and tile_stats[tile].hunts]


def extract_features(
    agent: AgentState, observation: Observation, path: Sequence[Cell], plan: ActionPlan | None = None
) -> tuple[float, ...]:
    """Returns the features of a forecast in the order of `drives.FEATURES`.

    Args:
        agent: Its beliefs and map.
        observation: Current observation.
        path: Cells that the plan enters.
        plan: The plan, for actions that do not move, and for what an LLM says about it; None if there is none.
    """
    beliefs, horizon = agent.beliefs, agent.forecaster.horizon
    tiles = [agent.world_map.tiles.get(cell, "") for cell in path[:horizon]]
    exposed_tiles = tiles or [observation.current_tile]  # without a move the agent stays
    safe_probability = math.prod(1.0 - beliefs.get_risk(tile, agent.prior) for tile in exposed_tiles if tile)
    for action in plan.actions if plan else ():  # actions that were refused before
        if action.name not in agent.world.moves and str(action) in beliefs.tile_stats:
            safe_probability *= 1.0 - beliefs.get_risk(str(action), agent.prior)
    unknown = sum(tile not in beliefs.tile_stats or not beliefs.tile_stats[tile].entered for tile in tiles)
    hunters, cells = find_hunters(agent, observation), path[:horizon] or [observation.position]
    distances = [min(distance(cell, hunter) for cell in cells) for hunter in hunters]
    night_factor = 1.5 if observation.is_dark else 1.0
    hunter_threat = sum(max(0.0, 1.0 - (gap - 1) / HUNT_RANGE) for gap in distances) * night_factor
    final_tile = tiles[-1] if tiles else observation.current_tile
    is_unsheltered = final_tile not in beliefs.refuges
    darkness_factor = 1.0 if beliefs.is_dark_harmful() or not beliefs.dark_ticks else 0.0
    current_stats = beliefs.tile_stats.get(observation.current_tile)
    ticks_left = (
        level / max(1e-4, agent.consumption_rates.get(name, 0.02)) for name, level in observation.resources.items()
    )
    is_dusk = not observation.is_dark and agent.ticks_to_dusk(observation.tick) < horizon
    return (
        1.0,
        1.0 - safe_probability,
        hunter_threat,
        max((math.exp(-ticks / horizon) for ticks in ticks_left), default=0),
        float(any(level <= 0 for level in observation.resources.values())),
        float(observation.is_dark and is_unsheltered) * darkness_factor,
        float(is_dusk and is_unsheltered) * darkness_factor,
        float(bool(observation.harm)),
        float(current_stats is not None and current_stats.hurt > 0.5 * current_stats.entered),
        unknown / horizon,
        *_extract_statements(plan, tiles),
    )


def _extract_statements(plan: ActionPlan | None, tiles: Sequence[str]) -> tuple[float, float]:
    """Returns the risk that an LLM states, as log odds, and whether its cautions name a tile of the path."""
    if plan is None or plan.stated_risk is None:
        return 0.0, 0.0
    stated_risk = min(0.95, max(0.05, plan.stated_risk))
    cautions = " ".join(plan.cautions).casefold()
    return math.log(stated_risk / (1.0 - stated_risk)), float(
        any(tile and tile.casefold() in cautions for tile in tiles)
    )


def trace_path(agent: AgentState, observation: Observation, actions: Sequence[Action]) -> list[Cell]:
    """Returns the cells that the moves of a plan enter.

    Where actions apply to the cell ahead, a move toward an obstacle or a hunter only turns the agent.
    """
    cell, path = observation.position, list[Cell]()
    for index, action in enumerate(actions):
        if action.name not in agent.world.moves:
            continue
        dx, dy = agent.world.moves[action.name]
        target = (cell[0] + dx, cell[1] + dy)
        if agent.world.reach != REACH_FACING or not _is_turn(agent, target, actions[index + 1 : index + 2]):
            cell = target
            path.append(cell)
    return path


def _is_turn(agent: AgentState, target: Cell, next_actions: Sequence[Action]) -> bool:
    tile = agent.world_map.tiles.get(target, "")
    stats = agent.beliefs.tile_stats.get(tile)
    is_obstacle = agent.beliefs.is_wall(tile) or (stats is not None and stats.hunts)
    return is_obstacle and any(action.name in agent.world.things for action in next_actions)


def extract_plan_features(agent: AgentState, observation: Observation, plan: ActionPlan) -> tuple[float, ...]:
    return extract_features(agent, observation, trace_path(agent, observation, plan.actions), plan)


def review_danger(
    agent: AgentState, observation: Observation, plan: ActionPlan, candidates: Sequence[Action]
) -> tuple[ActionPlan, float, Evasion | None]:
    """Compares the forecast of a plan with the danger threshold, and chooses something safer above it.

    The first actions of the plan are preferred if they are safe. Otherwise the single action with the lowest forecast
    is chosen, if it is clearly safer. Two kinds of plan are executed in any case: a fight with an adjacent hunter, and
    a plan for an urgent need while no hunter is near. The forecast does not see that waiting makes both worse.

    Returns:
        The plan to execute, the forecast of the proposed plan, and the reaction; None below the threshold.
    """
    forecast = agent.forecaster.forecast(extract_plan_features(agent, observation, plan))
    threshold = agent.settings.danger_threshold
    if forecast <= threshold or not agent.settings.has_fear:
        return plan, forecast, None

    def assess(option: ActionPlan) -> float:
        return agent.forecaster.forecast(extract_plan_features(agent, observation, option))

    is_accepted = _is_fight(agent, observation, plan) or _meets_urgent_need(agent, observation, plan)
    for length in range(0 if is_accepted else len(plan.actions) - 1, 0, -1):
        first_actions = replace(plan, actions=plan.actions[:length])
        if (option_forecast := assess(first_actions)) <= min(threshold, forecast - SAFER_MARGIN):
            names = tuple(map(str, first_actions.actions))
            return first_actions, forecast, Evasion(forecast, threshold, "stopped", names, option_forecast)
    options = [ActionPlan("evade", (action,)) for action in _iter_evasive_actions(agent, observation, candidates)]
    best = min(options, key=assess, default=None)
    if best is None or assess(best) > forecast - SAFER_MARGIN:
        return plan, forecast, Evasion(forecast, threshold, "no safer action")
    if is_accepted:
        return plan, forecast, Evasion(forecast, threshold, "accepted")
    return best, forecast, Evasion(forecast, threshold, "evaded", (str(best.actions[0]),), assess(best))


def _is_fight(agent: AgentState, observation: Observation, plan: ActionPlan) -> bool:
    """Returns whether a plan acts on an adjacent hunter: it turns to it at most, then uses objects."""
    if agent.world.reach != REACH_FACING or not plan.actions:
        return False
    (x, y), target, actions = observation.position, observation.facing, plan.actions
    if (move := agent.world.moves.get(actions[0].name)) is not None:
        target, actions = (x + move[0], y + move[1]), actions[1:]
    is_adjacent = any(cell == target and distance(cell, (x, y)) == 1 for cell in find_hunters(agent, observation))
    return is_adjacent and bool(actions) and all(action.name in agent.world.things for action in actions)


def _meets_urgent_need(agent: AgentState, observation: Observation, plan: ActionPlan) -> bool:
    """Returns whether a plan is "for" a resource that is about to run out, and no hunter is near."""
    needs = [name for name, level in observation.resources.items() if level <= URGENT_LEVEL]
    hunters = find_hunters(agent, observation)
    return any(f"for {name}".casefold() in plan.goal.casefold() for name in needs) and all(
        distance(cell, observation.position) > NEAR_HUNTER for cell in hunters
    )


def _iter_evasive_actions(
    agent: AgentState, observation: Observation, candidates: Sequence[Action]
) -> Iterator[Action]:
    """Yields waiting and the moves that lead somewhere; all candidates in a world without moves."""
    x, y = observation.position
    for action in candidates:
        if action.name in agent.world.moves:
            dx, dy = agent.world.moves[action.name]
            tile = observation.tiles.get((x + dx, y + dy))
            if tile is not None and not agent.beliefs.is_wall(tile):
                yield action
        elif action.name == "wait" or not agent.world.moves:
            yield action


def estimate_damage(agent: AgentState, tile: str) -> float:
    stats = agent.beliefs.tile_stats.get(tile)
    return agent.beliefs.get_risk(tile, agent.prior) * (stats.mean_damage() if stats is not None else UNKNOWN_DAMAGE)


def compute_hunter_costs(agent: AgentState, observation: Observation) -> dict[Cell, float]:
    """Returns the expected extra damage in the cells around hunters."""
    costs: dict[Cell, float] = {}
    night_factor = 1.5 if observation.is_dark else 1.0
    for x, y in find_hunters(agent, observation):
        for dx in range(-3, 4):
            for dy in range(abs(dx) - 3, 4 - abs(dx)):
                gap = abs(dx) + abs(dy)
                damage = HUNTER_DAMAGE * (1.0 if gap == 0 else 0.5 if gap == 1 else 0.12) * night_factor
                costs[x + dx, y + dy] = costs.get((x + dx, y + dy), 0.0) + damage
    return costs


def choose_evasive_action(agent: AgentState, observation: Observation) -> str:
    """Returns the move with the least expected damage, or `wait`."""
    (x, y), hunter_costs = observation.position, compute_hunter_costs(agent, observation)
    min_damage = estimate_damage(agent, observation.current_tile) + hunter_costs.get(observation.position, 0.0) + 0.01
    best = "wait"
    for name, (dx, dy) in agent.world.moves.items():
        target = (x + dx, y + dy)
        tile = observation.tiles.get(target)
        if tile is None or agent.beliefs.is_wall(tile):
            continue
        damage = estimate_damage(agent, tile) + hunter_costs.get(target, 0.0)
        if damage < min_damage:
            best, min_damage = name, damage
    return best if best in agent.world.actions else agent.world.actions[0]
