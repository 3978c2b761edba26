"""Several agents in one world, with shared or separate knowledge."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Literal

from atoll import playbook
from atoll.survival.agent_state import AgentState
from atoll.survival.episode import EpisodeRunner, EpisodeSummary
from atoll.survival.plan import ActionPlan, ExecutedAction, PlanningContext, Reflection
from atoll.survival.thinkers.thinker import Thinker
from atoll.survival.worlds.shared_grid import SharedGrid

type PartyMode = Literal["cooperation", "competition"]


@dataclass(slots=True)
class FirstActionThinker:
    """Executes only the first action of each plan, so that agents take turns."""

    thinker: Thinker

    def plan(self, agent: AgentState, context: PlanningContext) -> ActionPlan:
        plan = self.thinker.plan(agent, context)
        return replace(plan, actions=plan.actions[:1])

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
        policy_changes=max(summary.policy_changes for summary in summaries),
    )
