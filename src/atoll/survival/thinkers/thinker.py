"""Core Thinker: its interface, fixed policies, and the rule-based thinker, which weighs needs, dangers and novelty."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from atoll.survival import grid, risk
from atoll.survival.agent_state import AgentState
from atoll.survival.learning import BODY_CAUSES
from atoll.survival.plan import ActionPlan, Alert, ExecutedAction, PlanningContext, Reflection
from atoll.survival.thinkers import goals
from atoll.survival.thinkers.goals import Goal
from atoll.survival.world_map import Paths
from atoll.survival.worlds.world import Action, Cell, Observation


class Thinker(Protocol):
    """Plans a turn and reflects on it."""

    def plan(self, agent: AgentState, context: PlanningContext) -> ActionPlan:
        """Returns a plan, which is checked before it runs. Never raises because of an LLM response."""

    def reflect(self, agent: AgentState, report: str, steps: Sequence[ExecutedAction]) -> Reflection:
        """Returns the reflection on a turn."""


@dataclass(slots=True)
class WaitThinker:
    """Always executes the first action, which does nothing."""

    def plan(self, agent: AgentState, context: PlanningContext) -> ActionPlan:
        return ActionPlan("wait", (context.candidates[0],))

    def reflect(self, agent: AgentState, report: str, steps: Sequence[ExecutedAction]) -> Reflection:
        return Reflection("")


@dataclass(slots=True)
class RandomThinker(WaitThinker):
    rng: Random

    def plan(self, agent: AgentState, context: PlanningContext) -> ActionPlan:
        return ActionPlan("anything", (self.rng.choice(context.candidates),))


@dataclass(slots=True)
class PolicyThinker(WaitThinker):
    """Follows a grid policy, which sees the full grid."""

    world: grid.SurvivalGrid
    policy: grid.Policy

    def plan(self, agent: AgentState, context: PlanningContext) -> ActionPlan:
        return ActionPlan("follow the policy", (Action(grid.ACTIONS[self.policy(self.world)]),))


TICKS_PER_LIFE = 60.0  # ticks of detour that a full life is worth
MAX_ACTIONS = 4  # per plan; the situation further ahead will have changed
LEANING = 1e-6  # per cell: decides between equally good goals, in another direction each episode
REST_TICKS = 3  # ticks to rest before the next look


@dataclass(slots=True)
class RuleThinker:
    rng: Random
    _leaning: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        direction = Random(self.rng.getrandbits(32))
        self._leaning = (direction.uniform(-LEANING, LEANING), direction.uniform(-LEANING, LEANING))

    def plan(self, agent: AgentState, context: PlanningContext) -> ActionPlan:
        observation = context.observation
        for need in observation.resources:
            agent.recall(f"gives {need}")
        agent.recall("dark night daylight refuge")
        if not observation.tiles:
            return self._plan_without_map(agent, context)
        for action in agent.world.actions:
            if action not in agent.world.moves:
                agent.recall(action)
        world, recipe_book = agent.world, agent.recipe_book
        free_actions = [action for action in world.actions if action not in world.moves and action not in world.things]
        recipe_book.known_items |= observation.inventory.keys()
        recipe_book.has_unknown_recipes = not recipe_book.recipes.keys() >= set(free_actions) - {"wait"}
        plans = self.list_plans(agent, observation, 1)
        return plans[0] if plans else self._wander(agent)

    def list_plans(self, agent: AgentState, observation: Observation, count: int) -> Sequence[ActionPlan]:
        """Returns a plan for each of the best goals, best first. Goals with the same description count once."""
        damage_cost = TICKS_PER_LIFE / max(0.15, observation.life) if agent.settings.has_fear else 0.0
        hunter_costs = risk.compute_hunter_costs(agent, observation) if damage_cost else {}
        paths = _find_paths(agent, observation, damage_cost, hunter_costs)
        best: dict[str, tuple[float, int, Goal]] = {}
        for index, goal in enumerate(goals.iter_goals(agent, observation, paths)):
            cost = paths.costs.get(goal.cell)
            if cost is None:
                continue
            if goal.action is not None:  # an action takes a tick on its cell, also on the present one
                tile = agent.world_map.tiles.get(goal.cell, "")
                cost += damage_cost * (risk.estimate_damage(agent, tile) + hunter_costs.get(goal.cell, 0.0))
            value = goal.value - cost + self._leaning[0] * goal.cell[0] + self._leaning[1] * goal.cell[1]
            if goal.description not in best or value > best[goal.description][0]:
                best[goal.description] = (value, -index, goal)
        ranked = heapq.nlargest(count, best.values())
        return [self._make_plan(agent, observation, paths, goal, value) for value, _, goal in ranked]

    def reflect(self, agent: AgentState, report: str, steps: Sequence[ExecutedAction]) -> Reflection:
        alerts = []
        for step in steps:
            for cause, amount in step.after.harm.items():
                tile = step.after.current_tile if cause not in BODY_CAUSES else cause
                remedy = "find some soon" if cause in BODY_CAUSES else f"avoid {tile}"
                condition = "at night" if step.after.is_dark else "by day"
                alerts.append(Alert(tile or cause, cause, condition, remedy, amount))
        return Reflection(report, tuple(alerts))

    def _make_plan(
        self, agent: AgentState, observation: Observation, paths: Paths, goal: Goal, value: float
    ) -> ActionPlan:
        path = paths.get_path(goal.cell)
        moves = zip([observation.position, *path], path, strict=False)
        steps = [Action(_get_move_name(agent, *move)) for move in moves]
        if goal.target is not None and not (not path and observation.facing == goal.target):
            steps.append(Action(_get_move_name(agent, goal.cell, goal.target)))
        if goal.action is not None and len(steps) < MAX_ACTIONS:
            steps += [Action(goal.action)] * (REST_TICKS if goal.action == "wait" else 1)
        actions = tuple(steps[:MAX_ACTIONS]) or (Action(risk.choose_evasive_action(agent, observation)),)
        plan_risk = agent.forecaster.forecast(risk.extract_features(agent, observation, path[:MAX_ACTIONS]))
        tiles = [agent.world_map.tiles[cell] for cell in path[:MAX_ACTIONS]]
        feared_tiles = [tile for tile in tiles if agent.beliefs.get_risk(tile, 0) > 0.5]
        bullet_ids = {id for tile in tiles for id in agent.beliefs.bullet_ids.get(tile, ())}
        cautions = tuple(f"{tile} may hurt" for tile in dict.fromkeys(feared_tiles))
        reward, used = value / goals.NEED_VALUE, tuple(sorted(bullet_ids))
        return ActionPlan(goal.description, actions, (), plan_risk, reward, cautions, used)

    def _wander(self, agent: AgentState) -> ActionPlan:
        name = self.rng.choice(list(agent.world.moves) or list(agent.world.actions))
        return ActionPlan("go anywhere", (Action(name),), risk=0.5)

    def _plan_without_map(self, agent: AgentState, context: PlanningContext) -> ActionPlan:
        """Chooses an action in a world without a map: avoids refused actions, tries new ones."""
        best, best_value = context.candidates[0], -1e9
        for candidate in context.candidates:
            agent.recall(str(candidate))
            effect = agent.beliefs.effects.get((candidate.name, candidate.target))
            stats = agent.beliefs.tile_stats.get(str(candidate))
            tries = effect.tries if effect else 0.0
            value = (effect.gains.total() / effect.tries if effect and effect.tries else 0.0) + self.rng.random() * 0.1
            value += agent.curiosity / (1.0 + tries) ** 0.5
            if agent.settings.has_fear and stats is not None:
                value -= 2.0 * stats.hurt / (stats.entered + 1.0)
            if value > best_value:
                best, best_value = candidate, value
        return ActionPlan(f"{best}", (best,), expected_reward=best_value)


def _find_paths(
    agent: AgentState, observation: Observation, damage_cost: float, hunter_costs: Mapping[Cell, float]
) -> Paths:
    """Returns paths. A step costs one tick plus its expected damage, converted to ticks."""
    tile_costs = {
        tile: None if agent.beliefs.is_wall(tile) else 1.0 + damage_cost * risk.estimate_damage(agent, tile)
        for tile in agent.world_map.known_tiles
    }
    extra_costs = {cell: damage_cost * harm for cell, harm in hunter_costs.items()}
    return agent.world_map.find_paths(observation.position, tile_costs, extra_costs)


def _get_move_name(agent: AgentState, start: Cell, end: Cell) -> str:
    move = (end[0] - start[0], end[1] - start[1])
    return next(name for name, offset in agent.world.moves.items() if offset == move)
