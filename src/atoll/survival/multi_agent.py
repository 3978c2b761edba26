"""Several lives in one world: with one head between them, or each for themselves."""

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
    """Takes only the first action of every plan: the others have their turn."""

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
    """Lives as many lives as there are seats, turn by turn.

    In co-operation they share what they believe and one playbook: what hurts one is feared by all. In competition
    everybody begins with the same playbook and keeps their own.
    """
    shared_grid.reset_world(seed)
    setups = [
        runner.make_setup(agent_grid, book, state, seed=seed * 31 + index)
        for index, agent_grid in enumerate(shared_grid.agent_grids)
    ]
    for born in setups:
        born.roles.thinker = FirstActionThinker(born.roles.thinker)
        if party == "cooperation":
            born.agent.beliefs, born.agent.episode_playbook = setups[0].agent.beliefs, setups[0].agent.episode_playbook
    running_episodes = [
        runner.begin(setup, agent_grid.reset(seed), episode)
        for setup, agent_grid in zip(setups, shared_grid.agent_grids, strict=True)
    ]
    for number, lived in enumerate(running_episodes):
        lived.loop.agent_index = number
    while not shared_grid.is_over:
        shared_grid.begin_round()
        first = shared_grid.terrain.tick % len(running_episodes)
        for lived in running_episodes[first:] + running_episodes[:first]:  # nobody is always first at the bush
            if not lived.loop.observation.is_over:
                lived.run_turn()
        shared_grid.pass_time()  # where nobody did anything
    return [running_episode.end() for running_episode in running_episodes]


def merge_summaries(summaries: Sequence[EpisodeSummary]) -> EpisodeSummary:
    """Returns the life that stands for all: the longest one's playbook and state, the means of what was counted."""
    best = max(summaries, key=lambda summary: summary.ticks)
    return replace(
        best,
        score=fmean(summary.score for summary in summaries),
        ticks=round(fmean(summary.ticks for summary in summaries)),
        reward=fmean(summary.reward for summary in summaries),
        coverage=fmean(summary.coverage for summary in summaries),
        bits=fmean(summary.bits for summary in summaries),
        damage=fmean(summary.damage for summary in summaries),
        encounters=sum(summary.encounters for summary in summaries),
        avoided=sum(summary.avoided for summary in summaries),
        forecasts=tuple(forecast for summary in summaries for forecast in summary.forecasts),
        policy_changes=max(summary.policy_changes for summary in summaries),
    )
