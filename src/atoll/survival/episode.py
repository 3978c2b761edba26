"""One episode of an agent, from reset to death or time limit, and its summary."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from atoll import playbook
from atoll.candidate import EMPTY, JSON
from atoll.survival.agent_state import AgentSettings, AgentState
from atoll.survival.drives import Forecaster, ForecastOutcome
from atoll.survival.live_controls import CheckedSettings, LiveControls, NotificationSettings
from atoll.survival.loop import FeedbackLoop, Roles
from atoll.survival.plan import LoopSnapshot
from atoll.survival.roles.memory import EpisodePlaybook, Memory
from atoll.survival.worlds.world import Observation, ReportsMetrics, World

UNKNOWN_RISK = 0.3  # prior for untried tiles when the fear of an episode is measured


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """Result of one episode.

    Attributes:
        score: Ticks, or the reward in a world with `is_scored_by_reward`.
        forecasts: Forecasts and their outcomes.
        num_feared: Tiles feared at the end; `num_correct_fears` of them hurt, if the world knows.
        bits: Information gained about the map.
        book: Playbook at the end.
        world_metrics: Metrics from the world itself.
        counts: Deltas that the curator applied, held, rejected and retired.
        evasions: Turns with a forecast above the danger threshold, by outcome.
        rule_plans: Turns that rules planned, because the response of the LLM was invalid or no call was left; None if
            no LLM plans.
        state: Data for the next episode besides the playbook.
    """

    episode: int
    score: float
    ticks: int
    turns: int
    reward: float
    rewards: Mapping[str, float]
    cause: str | None
    coverage: float
    bits: float
    damage: float
    encounters: int
    avoided: int
    forecasts: tuple[ForecastOutcome, ...]
    num_feared: int
    num_correct_fears: int | None
    corrections: int
    policy_changes: int
    unlocked: tuple[str, ...]
    book: playbook.Playbook
    state: Mapping[str, JSON]
    events: tuple[Mapping[str, JSON], ...] = ()
    world_metrics: Mapping[str, float] = EMPTY
    counts: Mapping[str, int] = EMPTY
    evasions: Mapping[str, int] = EMPTY
    rule_plans: int | None = None
    is_cut: bool = False  # at `survival.max_turns`

    @property
    def ending(self) -> str:
        return describe_ending(self.cause, is_cut=self.is_cut)

    def to_data(self) -> dict[str, Any]:
        """Returns the JSON form for the journal."""
        return {
            "episode": self.episode,
            "score": round(self.score, 4),
            "ticks": self.ticks,
            "turns": self.turns,
            "reward": round(self.reward, 4),
            "rewards": {name: round(value, 3) for name, value in self.rewards.items()},
            "cause": self.cause,
            "coverage": round(self.coverage, 4),
            "bits": round(self.bits, 2),
            "damage": round(self.damage, 4),
            "encounters": self.encounters,
            "avoided": self.avoided,
            "said": [[round(forecast.forecast, 3), int(forecast.happened)] for forecast in self.forecasts],
            "feared": self.num_feared,
            "right": self.num_correct_fears,
            "corrections": self.corrections,
            "policy_changes": self.policy_changes,
            "unlocked": list(self.unlocked),
            **({"facts": dict(self.world_metrics)} if self.world_metrics else {}),
            **({"evasions": dict(self.evasions)} if self.evasions else {}),
            **({} if self.rule_plans is None else {"rule_plans": self.rule_plans}),
            **({"cut": True} if self.is_cut else {}),
        }


def describe_ending(cause: object, *, is_cut: bool) -> str:
    """Returns how an episode ended, by the cause of death, if there is one."""
    if cause:
        return f"died of {cause}"
    return "was alive at the limit survival.max_turns" if is_cut else "survived"


class EpisodeSetup(NamedTuple):
    """Agent and roles of an episode that is about to start."""

    agent: AgentState
    roles: Roles


@dataclass(slots=True)
class EpisodeRunner:
    """Runs episodes with the same settings: roles, limits and listeners."""

    curator: playbook.Curator
    make_roles: Callable[[AgentState, int], Roles]
    agent_settings: AgentSettings = field(default_factory=AgentSettings)
    horizon: int = 5
    max_turns: int = 10_000
    has_text: bool = False
    show: Callable[[LoopSnapshot], None] = lambda snapshot: None
    controls: LiveControls = field(default_factory=LiveControls)
    notification_settings: NotificationSettings = field(default_factory=NotificationSettings)

    def run(
        self, world: World, book: playbook.Playbook, state: Mapping[str, Any], *, seed: int, episode: int = 0
    ) -> EpisodeSummary:
        """Runs one episode in the world of a seed, with the playbook and state of the last episode."""
        setup = self.make_setup(world, book, state, seed=seed)
        running = self.begin(setup, world.reset(seed), episode)
        while not running.loop.observation.is_over and running.loop.turn < self.max_turns:
            running.run_turn()
        return running.end()

    def make_setup(self, world: World, book: playbook.Playbook, state: Mapping[str, Any], *, seed: int) -> EpisodeSetup:
        memory = Memory.from_data(state.get("memory", {}))
        forecaster = Forecaster.from_data(state.get("fear", {}), self.horizon)
        agent = AgentState(world, self.agent_settings, memory, EpisodePlaybook(book, self.curator), forecaster)
        return EpisodeSetup(agent, self.make_roles(agent, seed))

    def begin(self, setup: EpisodeSetup, start: Observation, episode: int) -> "RunningEpisode":
        loop = FeedbackLoop(setup.agent, setup.roles, start, episode, has_text=self.has_text)
        loop.notification_settings = self.notification_settings
        return RunningEpisode(loop, self)


@dataclass(slots=True)
class RunningEpisode:
    """Episode in progress: its loop and its totals so far."""

    loop: FeedbackLoop
    runner: EpisodeRunner
    reward: float = 0.0
    damage: float = 0.0
    unlocked: list[str] = field(default_factory=list)
    applied_settings: Mapping[str, JSON] = EMPTY

    def run_turn(self) -> None:
        """Runs one turn under the current live settings, then waits for the tick delay."""
        self._apply_live_settings()
        snapshot = self.loop.step()
        for step in snapshot.steps:
            if step.status != "blocked":
                self.reward += step.after.reward
                self.damage += sum(step.after.harm.values())
                self.unlocked += step.after.unlocked
        self.runner.show(snapshot)
        if not snapshot.observation.is_over:
            self.runner.controls.wait()

    def _apply_live_settings(self) -> None:
        """Applies changed live settings. The event log records when they took effect."""
        runner, loop, live_settings = self.runner, self.loop, self.runner.controls.read_settings()
        loop.has_text = runner.has_text or runner.controls.is_shown(live_settings)
        if live_settings.settings == self.applied_settings:
            return
        self.applied_settings = live_settings.settings
        checked = CheckedSettings(live_settings.settings)
        agent_settings = checked.apply_to_agent(loop.agent_state.settings)
        notification_settings = checked.apply_to_notifications(loop.notification_settings)
        old_values = asdict(loop.agent_state.settings) | asdict(loop.notification_settings)
        new_values = asdict(agent_settings) | asdict(notification_settings)
        if changed := {name: value for name, value in new_values.items() if old_values[name] != value}:
            loop.agent_state.settings, loop.notification_settings = agent_settings, notification_settings
            loop.roles.sentinel.log("steered", loop.observation.tick, **changed)

    def end(self) -> EpisodeSummary:
        """Summarizes the episode and writes a note for the next one."""
        loop = self.loop
        agent, observation = loop.agent_state, loop.observation
        world = agent.world
        is_cut = not observation.is_over
        ending = describe_ending(observation.cause, is_cut=is_cut)
        causes = ", ".join(f"{cause} {count} times" for cause, count in agent.memory.get_common_causes())
        damage = causes or "none"
        agent.memory.add_note(f"Episode {loop.episode}: {ending} after {observation.tick} ticks. Damage: {damage}.")
        feared_tiles, truth = agent.beliefs.list_feared(UNKNOWN_RISK), world.truth()
        return EpisodeSummary(
            loop.episode,
            self.reward if world.is_scored_by_reward else float(observation.tick),
            observation.tick,
            loop.turn,
            self.reward,
            dict(loop.roles.rewards.totals),
            observation.cause,
            sum(map(world.is_inside, agent.world_map.tiles)) / world.num_cells if world.num_cells else 0.0,
            agent.world_map.bits,
            self.damage,
            loop.encounters,
            loop.avoided,
            tuple(agent.forecaster.outcomes),
            len(feared_tiles),
            None if truth is None else sum(truth.get(tile, False) for tile in feared_tiles),
            agent.forecaster.corrections,
            agent.episode_playbook.num_changed,
            tuple(dict.fromkeys(self.unlocked)),
            agent.episode_playbook.playbook,
            {"memory": agent.memory.to_data(), "fear": agent.forecaster.to_data()},
            tuple(loop.roles.sentinel.events),
            dict(world.facts()) if isinstance(world, ReportsMetrics) else EMPTY,
            {name: count for name, count in agent.episode_playbook.counts.items() if count},
            dict(loop.evasions),
            getattr(loop.roles.thinker, "num_rule_plans", None),
            is_cut,
        )
