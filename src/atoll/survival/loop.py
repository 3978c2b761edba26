"""Feedback loop of an agent: collect, format, plan, execute and reflect, once per turn until the episode ends."""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atoll import playbook
from atoll.candidate import EMPTY, JSON
from atoll.survival import learning, risk
from atoll.survival.agent_state import AgentState
from atoll.survival.learning import Lesson, LessonReflector
from atoll.survival.live_controls import NotificationSettings
from atoll.survival.plan import ActionPlan, Evasion, ExecutedAction, LoopSnapshot, PlanningContext, Reflection
from atoll.survival.roles.execution_engine import ExecutionEngine, clear_effects
from atoll.survival.roles.formatters import ResultFormatter, StateFormatter, describe_actions
from atoll.survival.roles.presenter import StateChanges, iter_notices
from atoll.survival.roles.rewards import RewardSynthesizer
from atoll.survival.roles.sentinel import Sentinel
from atoll.survival.thinkers.thinker import Thinker
from atoll.survival.worlds.world import Observation, get_guide

NUM_RECENT = 8  # turns that a prompt shows

type ReflectFunction = Callable[[playbook.Playbook, Sequence[Lesson]], Sequence[playbook.Delta]]


@dataclass(slots=True)
class Roles:
    """Replaceable parts of the loop."""

    thinker: Thinker
    state_formatter: StateFormatter = field(default_factory=StateFormatter)
    result_formatter: ResultFormatter = field(default_factory=ResultFormatter)
    sentinel: Sentinel = field(default_factory=Sentinel)
    rewards: RewardSynthesizer = field(default_factory=RewardSynthesizer)
    reflector: ReflectFunction = field(default_factory=lambda: LessonReflector().reflect)
    state_changes: StateChanges = field(default_factory=StateChanges)


class FeedbackLoop:
    """Runs an agent turn by turn (the Executor of ACE).

    Attributes:
        observation: Last observation.
        turn: Number of turns so far.
        encounters, avoided: Turns with danger nearby, and how many passed without damage.
        evasions: Turns with a forecast above the danger threshold, by outcome.
        has_text: Whether turns include text.
        notification_settings: Detail of turns, and notifications to viewers.
        agent_index: Number of this agent if several share the world.
    """

    def __init__(
        self, agent: AgentState, roles: Roles, start: Observation, episode: int = 0, *, has_text: bool = True
    ) -> None:
        self.agent_state, self.roles, self.episode, self.has_text = agent, roles, episode, has_text
        self.notification_settings, self.agent_index = NotificationSettings(), 0
        self._engine = ExecutionEngine(roles.sentinel)
        self.observation, self.turn = roles.sentinel.sanitize(start), 0
        self.encounters = self.avoided = 0
        self.evasions: Counter[str] = Counter()
        self._previous_reflection: Reflection | None = None
        self._previous_observation: Observation | None = None
        self._recent: deque[str] = deque(maxlen=NUM_RECENT)
        self._num_logged = 0
        self.agent_state.perceive(self.observation)

    def step(self) -> LoopSnapshot:
        context = self._collect()
        plan = self.roles.thinker.plan(self.agent_state, context)
        plan = self.roles.sentinel.filter_plan(self.agent_state, plan, context.observation)
        agent, observation = self.agent_state, context.observation
        is_danger_near = self._is_danger_near(observation)
        executed, forecast, evasion = risk.review_danger(agent, observation, plan, context.candidates)
        agent.forecaster.issue_forecast(observation.tick, risk.extract_plan_features(agent, observation, executed))
        if evasion is not None:
            self.evasions[evasion.outcome] += 1
            if evasion.outcome == "stopped":
                reason = f"forecast {forecast:.2f} is above the threshold {evasion.threshold:.2f}"
                next_action = plan.actions[len(executed.actions)]
                self.roles.sentinel.log("aborted", observation.tick, reason=reason, action=str(next_action))
        steps = self._engine.run(agent, executed, clear_effects(observation), evasion)
        lessons = self._learn(steps)
        self._previous_observation = observation
        self.observation, self.turn = steps[-1].after, self.turn + 1
        return self._reflect(context, plan, steps, lessons, forecast, is_danger_near, evasion)

    def _collect(self) -> PlanningContext:
        """Steps 1 and 2: collects the state and the memories about it, as text."""
        agent, observation = self.agent_state, self.observation
        candidates = agent.world.candidates(observation)
        if not self.has_text:  # text costs time, and without an LLM and a viewer it has no reader
            return PlanningContext(observation, "", candidates, "", (), (), self._previous_reflection)
        forecast = agent.forecaster.forecast(risk.extract_features(agent, observation, ()))
        formatter = self.roles.state_formatter
        summary = formatter.format(formatter.build_slots(agent, observation, forecast, self._previous_observation))
        words = [*dict.fromkeys(observation.tiles.values()), *observation.resources]
        excerpts = agent.episode_playbook.get_excerpts(" ".join(words)) if agent.settings.has_playbook else ()
        guide, memory = get_guide(agent.world), agent.memory.find_relevant(words)
        schema = self.roles.rewards.format_scoreboard(agent, guide.rewards)
        lines = describe_actions(agent, observation, candidates)
        previous, recent = self._previous_reflection, tuple(self._recent)
        return PlanningContext(
            observation, summary, candidates, schema, memory, excerpts, previous, guide.goal, lines, recent
        )

    def _is_danger_near(self, observation: Observation) -> bool:
        agent, (x, y) = self.agent_state, observation.position
        neighbor_tiles = [observation.tiles.get((x + dx, y + dy), "") for dx, dy in agent.world.moves.values()]
        tile_stats = agent.beliefs.tile_stats
        harmful_tiles = [tile for tile in neighbor_tiles if tile in tile_stats and tile_stats[tile].hurt]
        return any(agent.beliefs.get_risk(tile, 0.0) > 0.5 for tile in harmful_tiles)

    def _learn(self, steps: Sequence[ExecutedAction]) -> list[Lesson]:
        lessons: list[Lesson] = []
        for step in steps:
            if step.status == "blocked":
                continue
            self.agent_state.forecaster.resolve(step.after)
            lessons += learning.learn(self.agent_state, step)
            lessons += learning.learn_renewals(self.agent_state, self.agent_state.perceive(step.after))
            for item in (*step.after.gained, *step.after.unlocked):
                tile = step.before.current_tile or "nothing"
                self.agent_state.memory.add_discovery(f"{item} by {step.action} at {tile}")
        return lessons

    def _propose_deltas(self, lessons: Sequence[Lesson], report: str) -> Sequence[playbook.Delta]:
        """Returns playbook deltas from the lessons and from the last reflection."""
        if not self.agent_state.settings.has_playbook:
            return ()
        deltas = list(self.roles.reflector(self.agent_state.episode_playbook.playbook, lessons))
        for lesson in self._previous_reflection.lessons if self._previous_reflection else ():
            deltas.append(playbook.add("reflections", lesson, evidence=report[:200], source="reflection"))
        return deltas

    def _reflect(
        self,
        context: PlanningContext,
        plan: ActionPlan,
        steps: Sequence[ExecutedAction],
        lessons: Sequence[Lesson],
        forecast: float,
        is_danger_near: bool,
        evasion: Evasion | None,
    ) -> LoopSnapshot:
        """Step 5: computes rewards, report, reflection and deltas, and returns them as a snapshot."""
        agent, roles = self.agent_state, self.roles
        is_hurt = any(learning.get_ground_damage(agent, step.after) for step in steps)
        self.encounters += is_danger_near or is_hurt
        self.avoided += is_danger_near and not is_hurt
        rewards = roles.rewards.add(agent, steps, is_defended=is_danger_near and not is_hurt)
        bits = agent.world_map.bits
        report = roles.result_formatter.format(steps, rewards["external"], bits, forecast) if self.has_text else ""
        if report:
            self._recent.append(f"turn {self.turn}, tick {steps[0].before.tick}: {report}")
        self._previous_reflection = roles.thinker.reflect(agent, report, steps)
        agent.follow_exploration(self._previous_reflection.exploration, steps)
        for alert in self._previous_reflection.alerts:
            agent.memory.add_alert(alert, self.observation.tick)
        verdicts = agent.episode_playbook.apply(self._propose_deltas(lessons, report))
        events = tuple(roles.sentinel.events[self._num_logged :])
        self._num_logged = len(roles.sentinel.events)
        has_text = self.has_text
        warnings = tuple(roles.rewards.find_warnings(agent, forecast)) if has_text else ()
        return LoopSnapshot(
            self.episode,
            self.turn,
            self.observation,
            context.summary,
            plan,
            tuple(steps),
            self._previous_reflection,
            forecast,
            rewards,
            {**roles.rewards.get_scoreboard(), "curiosity": round(agent.curiosity_weight, 3)} if has_text else {},
            warnings,
            tuple(verdict.to_data() for verdict in verdicts) if has_text else (),
            agent.episode_playbook.stats() if has_text else {},
            events,
            evasion=evasion,
            **(self._build_view(context, forecast, events, warnings) if has_text else {}),
        )

    def _build_view(
        self, context: PlanningContext, forecast: float, events: Sequence[Mapping[str, JSON]], warnings: Sequence[str]
    ) -> dict[str, Any]:
        """Returns the snapshot fields that only viewers need."""
        agent, detail = self.agent_state, self.notification_settings.log_detail
        reward = self.roles.rewards.totals.get("external", 0.0)
        score = reward if agent.world.is_scored_by_reward else self.observation.tick
        settings, notifications = agent.settings, self.notification_settings.notifications
        limits = {"danger_threshold": settings.danger_threshold, "exploration_bonus": settings.exploration_bonus}
        current_settings = {**limits, "log_detail": detail, "notifications": notifications}
        thinker_input = {
            "candidates": [str(action) for action in context.candidates],
            "memory": list(context.memory),
            "playbook": list(context.playbook),
            "rewards": context.reward_schema,
        }
        threshold = settings.danger_threshold
        alarms = iter_notices(notifications, self.observation, forecast, threshold, events, warnings)
        return {
            "view": {**self.roles.state_changes.collect(agent, self.observation, score), "in_force": current_settings},
            "notices": tuple(alarms),
            "thinker_input": thinker_input if detail == "verbose" else EMPTY,
            "is_quiet": detail == "quiet",
            "agent": self.agent_index,
        }
