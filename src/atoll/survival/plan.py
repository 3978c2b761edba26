"""Data passed between the roles in a turn: plan, executed actions, reflection and snapshot."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from atoll.candidate import EMPTY, JSON
from atoll.survival.worlds.world import Action, Observation

type Status = Literal["done", "refused", "blocked", "aborted", "evaded"]


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """Plan of a thinker.

    Attributes:
        risk: Estimated probability of damage, 0 to 1.
        used: Ids of the playbook bullets that it relies on.
        stated_risk: The risk as stated by an LLM; None if the plan's risk is the agent's own forecast.
    """

    goal: str
    actions: tuple[Action, ...]
    subgoals: tuple[str, ...] = ()
    risk: float = 0.0
    expected_reward: float = 0.0
    cautions: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    stated_risk: float | None = None

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
    """Entry of the alert log: cause of damage, condition and remedy."""

    what: str
    cause: str
    condition: str
    remedy: str
    damage: float


@dataclass(frozen=True, slots=True)
class Reflection:
    """Result of reflecting on a turn: text for the next plan, alerts, exploration level and lessons."""

    text: str
    alerts: tuple[Alert, ...] = ()
    exploration: float = 1.0
    lessons: tuple[str, ...] = ()

    def to_data(self) -> dict[str, JSON]:
        alerts: list[JSON] = [asdict(alert) for alert in self.alerts]
        return {"text": self.text, "alerts": alerts, "exploration": round(self.exploration, 4)}


@dataclass(frozen=True, slots=True)
class ExecutedAction:
    """Executed action: its status, and the observations before and after."""

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
    """Input of a thinker.

    Attributes:
        goal: What the agent is to achieve.
        action_lines: What each candidate does here, one line each.
        recent: Results of the last turns, oldest first.
        summary: State as text, in slots.
        candidates: Possible actions.
        reward_schema: Description of the rewards, with the scoreboard.
        memory: Excerpts of the alert log, the exploration log and the notes.
        playbook: Excerpts of the playbook, one line each.
        previous: Reflection on the previous turn.
    """

    observation: Observation
    summary: str
    candidates: Sequence[Action]
    reward_schema: str
    memory: Sequence[str]
    playbook: Sequence[str]
    previous: Reflection | None
    goal: str = ""
    action_lines: Sequence[str] = ()
    recent: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Evasion:
    """Turn whose plan had a forecast above the danger threshold.

    Attributes:
        forecast: Forecast of the plan as proposed.
        outcome: `evaded`: another action instead; `stopped`: only the first actions of the plan; `no safer action`;
            `accepted`: a fight or an urgent plan, although another action had a lower forecast.
        instead: Actions that were executed.
        instead_forecast: Their forecast.
    """

    forecast: float
    threshold: float
    outcome: Literal["evaded", "stopped", "no safer action", "accepted"]
    instead: tuple[str, ...] = ()
    instead_forecast: float = 0.0

    def to_data(self) -> dict[str, JSON]:
        numbers: dict[str, JSON] = {"forecast": round(self.forecast, 4), "threshold": self.threshold}
        data: dict[str, JSON] = {**numbers, "outcome": self.outcome}
        if self.instead:
            data |= {"instead": list(self.instead), "instead_forecast": round(self.instead_forecast, 4)}
        return data


@dataclass(frozen=True, slots=True)
class LoopSnapshot:
    """Complete record of one turn.

    Attributes:
        view: Status of the episode, and changes of its map and memory.
        notices: Notifications to viewers.
        thinker_input: Input of the thinker, if `log_detail` is verbose.
        is_quiet: Whether text is omitted.
        agent: Number of the agent if several share the world.
        evasion: Reaction to a forecast above the danger threshold; None if it was below.
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
    thinker_input: Mapping[str, JSON] = EMPTY
    is_quiet: bool = False
    agent: int = 0
    evasion: Evasion | None = None

    @property
    def tick(self) -> int:
        return self.observation.tick

    def to_data(self) -> dict[str, Any]:
        """Returns the JSON form, one line of `--save-run`."""
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
            **({"given": dict(self.thinker_input)} if self.thinker_input else {}),
            **({"agent": self.agent} if self.agent else {}),
            **({"evasion": self.evasion.to_data()} if self.evasion else {}),
        }
