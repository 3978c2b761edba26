"""Several agents in one grid world, with shared or separate knowledge. They compete for food."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Literal

from atoll import playbook
from atoll.survival import grid
from atoll.survival.agent_state import AgentState
from atoll.survival.episode import EpisodeRunner, EpisodeSummary
from atoll.survival.grid.terrain import MOVES
from atoll.survival.plan import ActionPlan, ExecutedAction, PlanningContext, Reflection
from atoll.survival.thinkers.thinker import Thinker
from atoll.survival.worlds.gridworld import make_guide, make_observation
from atoll.survival.worlds.world import REACH_HERE, Action, Cell, Observation


class SharedGrid:
    """Terrain that the agents share.

    A round is one tick. The first action of a round advances the tick, the others do not.
    """

    def __init__(self, preset: str, family: int, num_agents: int) -> None:
        self.preset, self._family, self._num_agents = grid.get_preset(preset), family, num_agents
        self.agent_grids = [AgentGrid(self, index) for index in range(num_agents)]
        self.reset_world(0)

    def reset_world(self, seed: int) -> None:
        self.terrain = grid.make_terrain(self.preset, seed, self._family, self._num_agents)
        self.bodies = [grid.Body(cell) for cell in self.terrain.starts]
        self.begin_round()

    def begin_round(self) -> None:
        """Starts a round: the next action advances the tick."""
        self._is_tick_due = True

    def pass_time(self) -> None:
        """Advances the tick of this round unless it has already advanced."""
        if self._is_tick_due:
            self.terrain.pass_time([body.cell for body in self.bodies if body.is_alive])
        self._is_tick_due = False

    @property
    def is_over(self) -> bool:
        return self.terrain.tick >= self.preset.max_ticks or not any(body.is_alive for body in self.bodies)


class AgentGrid:
    """View of one agent. Other agents appear as `other agent` tiles."""

    def __init__(self, shared_grid: SharedGrid, index: int) -> None:
        self._shared_grid, self._index = shared_grid, index
        self.name = f"grid {shared_grid.preset.name}, agent {index}"
        self.actions: Sequence[str] = grid.ACTIONS
        self.moves: Mapping[str, Cell] = MOVES
        self.reach = REACH_HERE
        self.things: Sequence[str] = ("gather",)
        self.patience, self.num_cells, self.is_scored_by_reward = 2, shared_grid.preset.size**2, False
        self._candidates = [Action(name) for name in grid.ACTIONS]
        self.guide = make_guide(shared_grid.preset)

    def reset(self, seed: int) -> Observation:
        return self._observe(0.0)

    def act(self, action: Action) -> Observation:
        shared_grid = self._shared_grid
        body = shared_grid.bodies[self._index]
        needs = (body.food, body.water)
        body.act(shared_grid.terrain, action.name)
        shared_grid.pass_time()
        if body.is_alive:
            body.apply_tick(shared_grid.terrain)
        return self._observe(grid.compute_reward(shared_grid.terrain, body, needs))

    def _observe(self, reward: float) -> Observation:
        shared_grid = self._shared_grid
        base_observation = make_observation(shared_grid.terrain, shared_grid.bodies[self._index], reward)
        tiles: dict[Cell, str] = dict(base_observation.tiles)
        for index, body in enumerate(shared_grid.bodies):
            if index != self._index and body.is_alive and body.cell in tiles and tiles[body.cell] == "ground":
                tiles[body.cell] = "other agent"
        return replace(base_observation, tiles=tiles)

    def candidates(self, observation: Observation) -> Sequence[Action]:
        return self._candidates

    def is_inside(self, cell: Cell) -> bool:
        return self._shared_grid.terrain.is_inside(cell)

    def truth(self) -> Mapping[str, bool]:
        meanings = self._shared_grid.terrain.sign_meanings
        return {f"sign {sign}": kind != "nothing" for sign, kind in meanings.items()} | {"beast": True}

    def close(self) -> None:
        """Does nothing: no resources to release."""


type PartyMode = Literal["cooperation", "competition"]


@dataclass(slots=True)
class FirstActionThinker:
    """Executes only the first action of each plan, so that agents take turns."""

    thinker: Thinker

    def plan(self, agent: AgentState, context: PlanningContext) -> ActionPlan:
        plan = self.thinker.plan(agent, context)
        return replace(plan, actions=plan.actions[:1])

    @property
    def num_rule_plans(self) -> int | None:
        return getattr(self.thinker, "num_rule_plans", None)

    def reflect(self, agent: AgentState, report: str, steps: Sequence[ExecutedAction]) -> Reflection:
        return self.thinker.reflect(agent, report, steps)


def run_together(
    runner: EpisodeRunner,
    shared_grid: SharedGrid,
    party: PartyMode,
    book: playbook.Playbook,
    state: Mapping[str, Any],
    *,
    seed: int,
    episode: int = 0,
) -> list[EpisodeSummary]:
    """Runs one episode of every agent, turn by turn.

    In cooperation the agents share beliefs and one playbook. In competition each starts with the same playbook and
    changes its own copy.
    """
    shared_grid.reset_world(seed)
    setups = [
        runner.make_setup(agent_grid, book, state, seed=seed * 31 + index)
        for index, agent_grid in enumerate(shared_grid.agent_grids)
    ]
    for setup in setups:
        setup.roles.thinker = FirstActionThinker(setup.roles.thinker)
        if party == "cooperation":
            setup.agent.beliefs = setups[0].agent.beliefs
            setup.agent.episode_playbook = setups[0].agent.episode_playbook
    running_episodes = [
        runner.begin(setup, agent_grid.reset(seed), episode)
        for setup, agent_grid in zip(setups, shared_grid.agent_grids, strict=True)
    ]
    for index, running in enumerate(running_episodes):
        running.loop.agent_index = index
    while not shared_grid.is_over:
        shared_grid.begin_round()
        first = shared_grid.terrain.tick % len(running_episodes)
        for running in running_episodes[first:] + running_episodes[:first]:  # rotate the order for fairness
            if not running.loop.observation.is_over:
                running.run_turn()
        shared_grid.pass_time()  # advances the tick if no agent acted
    return [running.end() for running in running_episodes]


def merge_summaries(summaries: Sequence[EpisodeSummary]) -> EpisodeSummary:
    """Returns one summary for all: playbook and state of the longest episode, means of the metrics."""
    best = max(summaries, key=lambda summary: summary.ticks)
    means: dict[str, Any] = {
        name: fmean(getattr(summary, name) for summary in summaries)
        for name in ("score", "reward", "coverage", "bits", "damage")
    }
    return replace(
        best,
        **means,
        ticks=round(fmean(summary.ticks for summary in summaries)),
        encounters=sum(summary.encounters for summary in summaries),
        avoided=sum(summary.avoided for summary in summaries),
        forecasts=tuple(forecast for summary in summaries for forecast in summary.forecasts),
        evasions=dict(sum((Counter(summary.evasions) for summary in summaries), Counter[str]())),
        rule_plans=None if best.rule_plans is None else sum(summary.rule_plans or 0 for summary in summaries),
        turns=best.turns if best.rule_plans is None else sum(summary.turns for summary in summaries),
        policy_changes=max(summary.policy_changes for summary in summaries),
    )
