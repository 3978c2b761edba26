"""What passes between the roles in a turn: a plan, what became of it, what was learnt, and all of it together."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from atoll.candidate import EMPTY, JSON
from atoll.survival.worlds.world import Action, Observation

type Status = Literal["done", "refused", "blocked", "aborted", "evaded"]


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """What a thinker means to do.

    Attributes:
        risk: Its own estimate that damage comes of it, 0 to 1.
        used: Ids of the bullets of the playbook that it goes by.
    """

    goal: str
    actions: tuple[Action, ...]
    subgoals: tuple[str, ...] = ()
    risk: float = 0.0
    expected_reward: float = 0.0
    cautions: tuple[str, ...] = ()
    used: tuple[str, ...] = ()

    def to_data(self) -> dict[str, JSON]:
        return {
            "goal": self.goal,
            "actions": [str(action) for action in self.actions],
            "subgoals": list(self.subgoals),
            "risk": round(self.risk, 4),
            "expected_reward": round(self.expected_reward, 4),
            "cautions": list(self.cautions),
            "used": list(self.used),
        }


@dataclass(frozen=True, slots=True)
class Alert:
    """An entry of the alert log, the dictionary of fear: what hurt, when, what to do about it."""

    what: str
    cause: str
    condition: str
    remedy: str
    damage: float


@dataclass(frozen=True, slots=True)
class Reflection:
    """What a turn taught: words for the next plan, alerts, how much to explore, and sentences for the playbook."""

    text: str
    alerts: tuple[Alert, ...] = ()
    exploration: float = 1.0
    lessons: tuple[str, ...] = ()

    def to_data(self) -> dict[str, JSON]:
        return {
            "text": self.text,
            "alerts": [asdict(alert) for alert in self.alerts],
            "exploration": round(self.exploration, 4),
        }


@dataclass(frozen=True, slots=True)
class ExecutedAction:
    """One action as it went: what it was, what became of it, what was seen before and after."""

    action: Action
    status: Status
    before: Observation
    after: Observation
    note: str = ""

    def to_data(self) -> dict[str, JSON]:
        data: dict[str, JSON] = {"action": str(self.action), "status": self.status}
        data |= {"note": self.note} if self.note else {}
        harm = {name: round(amount, 4) for name, amount in self.after.harm.items()}
        data |= {"harm": harm} if harm and self.status != "blocked" else {}
        return data | ({"gained": list(self.after.gained)} if self.after.gained and self.status == "done" else {})


@dataclass(frozen=True, slots=True)
class PlanningContext:
    """What a thinker is given to plan with.

    Attributes:
        summary: The state in words, in slots.
        candidates: What could be done.
        reward_schema: What counts for how much, with the score board.
        memory: Excerpts of the alert log, the exploration log and the meta notes.
        playbook: Excerpts of the playbook, a line each.
        previous: The reflection on the turn before.
    """

    observation: Observation
    summary: str
    candidates: Sequence[Action]
    reward_schema: str
    memory: Sequence[str]
    playbook: Sequence[str]
    previous: Reflection | None


@dataclass(frozen=True, slots=True)
class LoopSnapshot:
    """Everything about one turn, for whoever watches.

    Attributes:
        view: How the life stands, and what changed on its map and in its memory.
        notices: What a watcher is notified of.
        given: What the thinker was given, where everything is told.
        is_quiet: Whether words are left out.
        agent: Whose turn it was, where several live at once.
    """

    episode: int
    turn: int
    observation: Observation
    summary: str
    plan: ActionPlan
    steps: tuple[ExecutedAction, ...]
    reflection: Reflection
    forecast: float
    rewards: Mapping[str, float] = EMPTY
    scores: Mapping[str, JSON] = EMPTY
    warnings: tuple[str, ...] = ()
    verdicts: tuple[Mapping[str, JSON], ...] = ()
    playbook: Mapping[str, JSON] = field(default_factory=dict)
    events: tuple[Mapping[str, JSON], ...] = ()
    view: Mapping[str, JSON] = EMPTY
    notices: tuple[Mapping[str, JSON], ...] = ()
    given: Mapping[str, JSON] = EMPTY
    is_quiet: bool = False
    agent: int = 0

    @property
    def tick(self) -> int:
        return self.observation.tick

    def to_data(self) -> dict[str, Any]:
        """Returns plain data, a line of `--save-run`."""
        plan, reflection = self.plan.to_data(), self.reflection.to_data()
        if self.is_quiet:
            plan |= {"goal": "", "subgoals": [], "cautions": []}
            reflection |= {"text": ""}
        return {
            "episode": self.episode,
            "turn": self.turn,
            "tick": self.tick,
            "state": self.observation.to_data(),
            "is_over": self.observation.is_over,
            "cause": self.observation.cause,
            "summary": "" if self.is_quiet else self.summary,
            "plan": plan,
            "steps": [step.to_data() for step in self.steps],
            "reflection": reflection,
            "forecast": round(self.forecast, 4),
            "rewards": {name: round(value, 4) for name, value in self.rewards.items()},
            "scores": dict(self.scores),
            "warnings": list(self.warnings),
            "deltas": [dict(verdict) for verdict in self.verdicts],
            "playbook": dict(self.playbook),
            "events": [dict(event) for event in self.events],
            "view": dict(self.view),
            "notices": [dict(notice) for notice in self.notices],
            **({"given": dict(self.given)} if self.given else {}),
            **({"agent": self.agent} if self.agent else {}),
        }
