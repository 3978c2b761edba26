"""Agents, loops and episodes that several tests share."""

from random import Random
from typing import Any

from atoll import playbook
from atoll.survival.agent_state import AgentSettings, AgentState
from atoll.survival.drives import Forecaster
from atoll.survival.episode import EpisodeRunner, EpisodeSummary
from atoll.survival.loop import FeedbackLoop, Roles
from atoll.survival.plan import ActionPlan, PlanningContext, Reflection
from atoll.survival.roles.memory import EpisodePlaybook, Memory
from atoll.survival.thinkers.thinker import RuleThinker
from atoll.survival.worlds.gridworld import GridWorld
from atoll.survival.worlds.world import Action, Observation


class ScriptedThinker:
    """Returns the given plans in order, then waits."""

    def __init__(self, *plans: ActionPlan) -> None:
        self._plans = list(plans)

    def plan(self, agent: AgentState, context: PlanningContext) -> ActionPlan:
        return self._plans.pop(0) if self._plans else ActionPlan("wait", (Action("wait"),))

    def reflect(self, agent: AgentState, report: str, steps: Any) -> Reflection:
        return Reflection(report)


def make_agent(world: Any = None, book: playbook.Playbook | None = None, **settings: Any) -> AgentState:
    episode_playbook = EpisodePlaybook(book or playbook.Playbook(), playbook.Curator())
    return AgentState(
        world or GridWorld("meadow", 1), AgentSettings(**settings), Memory(), episode_playbook, Forecaster()
    )


def make_loop(*plans: ActionPlan, agent: AgentState | None = None, seed: int = 3, thinker: Any = None) -> FeedbackLoop:
    agent = agent or make_agent()
    return FeedbackLoop(agent, Roles(thinker or ScriptedThinker(*plans)), agent.world.reset(seed))


def make_plan(*names: str) -> ActionPlan:
    return ActionPlan("scripted", tuple(Action(name) for name in names))


def run_episodes(count: int, seed: int = 5, world: Any = None, **settings: Any) -> list[EpisodeSummary]:
    runner = EpisodeRunner(
        playbook.Curator(), lambda agent, seed: Roles(RuleThinker(Random(seed))), AgentSettings(**settings)
    )
    book, state, summaries = playbook.Playbook(), dict[str, Any](), []
    for episode in range(count):
        summary = runner.run(
            world or GridWorld("meadow", seed), book, state, seed=seed * 100 + episode, episode=episode
        )
        book, state = summary.book, dict(summary.state)
        summaries.append(summary)
    return summaries


def build_observation(**fields: Any) -> Observation:
    defaults: dict[str, Any] = {"tick": 1, "position": (0, 0), "life": 1.0, "resources": {"food": 1.0}}
    return Observation(**{**defaults, **fields})
