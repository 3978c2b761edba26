"""Worlds and lives that several tests share."""

from random import Random
from typing import Any

from atoll import playbook
from atoll.survival.agent_state import AgentSettings, AgentState
from atoll.survival.episode import EpisodeRunner, EpisodeSummary
from atoll.survival.fear import Forecaster
from atoll.survival.loop import FeedbackLoop, Roles
from atoll.survival.plan import ActionPlan, PlanningContext, Reflection
from atoll.survival.roles.memory import Memory
from atoll.survival.roles.playbook_store import EpisodePlaybook
from atoll.survival.thinkers.rule_based import RuleThinker
from atoll.survival.worlds.gridworld import GridWorld
from atoll.survival.worlds.world import Action, Observation


class Scripted:
    """Plans what it is told to."""

    def __init__(self, *plans: ActionPlan) -> None:
        self._plans = list(plans)

    def plan(self, agent: AgentState, context: PlanningContext) -> ActionPlan:
        return self._plans.pop(0) if self._plans else ActionPlan("wait", (Action("wait"),))

    def reflect(self, agent: AgentState, report: str, steps: Any) -> Reflection:
        return Reflection(report)


def make_mind(world: Any = None, book: playbook.Playbook | None = None, **temper: Any) -> AgentState:
    shelf = EpisodePlaybook(book or playbook.Playbook(), playbook.Curator())
    return AgentState(world or GridWorld("meadow", 1), AgentSettings(**temper), Memory(), shelf, Forecaster())


def make_loop(*plans: ActionPlan, mind: AgentState | None = None, seed: int = 3, thinker: Any = None) -> FeedbackLoop:
    mind = mind or make_mind()
    return FeedbackLoop(mind, Roles(thinker or Scripted(*plans)), mind.world.reset(seed))


def do(*names: str) -> ActionPlan:
    return ActionPlan("as the test says", tuple(Action(name) for name in names))


def live(count: int, seed: int = 5, world: Any = None, **temper: Any) -> list[EpisodeSummary]:
    living = EpisodeRunner(
        playbook.Curator(), lambda mind, number: Roles(RuleThinker(Random(number))), AgentSettings(**temper)
    )
    book, state, lives = playbook.Playbook(), dict[str, Any](), []
    for episode in range(count):
        life = living.run(world or GridWorld("meadow", seed), book, state, seed=seed * 100 + episode, episode=episode)
        book, state = life.book, dict(life.state)
        lives.append(life)
    return lives


def seen(**facts: Any) -> Observation:
    usual: dict[str, Any] = {"tick": 1, "position": (0, 0), "life": 1.0, "resources": {"food": 1.0}}
    return Observation(**{**usual, **facts})
