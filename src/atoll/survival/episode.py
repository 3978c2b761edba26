"""One life from birth to death, and what is left of it."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from atoll import playbook
from atoll.candidate import EMPTY, JSON
from atoll.survival.agent_state import AgentSettings, AgentState
from atoll.survival.fear import Forecaster, ForecastOutcome
from atoll.survival.live_controls import CheckedSettings, LiveControls, NotificationSettings
from atoll.survival.loop import FeedbackLoop, Roles
from atoll.survival.plan import LoopSnapshot
from atoll.survival.roles.memory import Memory
from atoll.survival.roles.playbook_store import EpisodePlaybook
from atoll.survival.worlds.world import Observation, ReportsMetrics, World

UNKNOWN_RISK = 0.3  # where fear is measured after a life: what nobody tried


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """What a life was like.

    Attributes:
        score: Ticks, or the reward in a world that is scored by it.
        said: Forecasts and what became of them.
        feared: Looks that were held to hurt at its end; `right` of them truly do, where the world knows.
        bits: Information gained about the map.
        book: The playbook after it.
        facts: What the world itself tells of it.
        counts: What the curator applied, held, rejected and retired.
        state: What goes on to the next life besides the playbook.
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

    def to_data(self) -> dict[str, Any]:
        """Returns it in plain numbers, as a journal keeps it."""
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
        }


class EpisodeSetup(NamedTuple):
    """Somebody who is about to live."""

    agent: AgentState
    roles: Roles


@dataclass(slots=True)
class EpisodeRunner:
    """How lives are lived: who plays the roles, how long at most, and who is shown what."""

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
        """Lives one life in the world of a seed, beginning with a playbook and what the last life left."""
        setup = self.make_setup(world, book, state, seed=seed)
        running = self.begin(setup, world.reset(seed), episode)
        while not running.loop.observation.is_over and running.loop.turn < self.max_turns:
            running.run_turn()
        return running.end()

    def make_setup(self, world: World, book: playbook.Playbook, state: Mapping[str, Any], *, seed: int) -> EpisodeSetup:
        """Makes a mind and its roles."""
        memory = Memory.from_data(state.get("memory", {}))
        forecaster = Forecaster.from_data(state.get("fear", {}), self.horizon)
        agent = AgentState(world, self.agent_settings, memory, EpisodePlaybook(book, self.curator), forecaster)
        return EpisodeSetup(agent, self.make_roles(agent, seed))

    def begin(self, setup: EpisodeSetup, start: Observation, episode: int) -> "RunningEpisode":
        """Begins a life with what is seen first."""
        loop = FeedbackLoop(setup.agent, setup.roles, start, episode, has_text=self.has_text)
        loop.notification_settings = self.notification_settings
        return RunningEpisode(loop, self)


@dataclass(slots=True)
class RunningEpisode:
    """A life under way: its loop, and what was counted so far."""

    loop: FeedbackLoop
    runner: EpisodeRunner
    reward: float = 0.0
    damage: float = 0.0
    unlocked: list[str] = field(default_factory=list)
    applied_settings: Mapping[str, JSON] = EMPTY

    def run_turn(self) -> None:
        """Lives one turn, under what is wished by now, and waits as long as is set."""
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
        """Takes in what people outside wish: what changes is logged, so that the turns tell when it came into force."""
        runner, loop, live_settings = self.runner, self.loop, self.runner.controls.read_settings()
        loop.has_text = runner.has_text or runner.controls.is_shown(live_settings)
        if live_settings.settings == self.applied_settings:
            return
        self.applied_settings = live_settings.settings
        checked = CheckedSettings(live_settings.settings)
        agent_settings, notification_settings = (
            checked.apply_to_agent(loop.agent_state.settings),
            checked.apply_to_notifications(loop.notification_settings),
        )
        old_values, new_values = (
            {**asdict(first), **asdict(second)}
            for first, second in (
                (loop.agent_state.settings, loop.notification_settings),
                (agent_settings, notification_settings),
            )
        )
        if changed := {name: value for name, value in new_values.items() if old_values[name] != value}:
            loop.agent_state.settings, loop.notification_settings = agent_settings, notification_settings
            loop.roles.sentinel.log("steered", loop.observation.tick, **changed)

    def end(self) -> EpisodeSummary:
        """Sums up, and writes a note for whoever lives next."""
        loop = self.loop
        agent, observation = loop.agent_state, loop.observation
        world = agent.world
        ending = f"died of {observation.cause}" if observation.cause else "lived on"
        causes = ", ".join(f"{cause} {count} times" for cause, count in agent.memory.get_common_causes())
        agent.memory.add_note(
            f"Life {loop.episode}: {ending} after {observation.tick} ticks; what hurt: {causes or 'nothing'}."
        )
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
            agent.episode_playbook.num_applied,
            tuple(dict.fromkeys(self.unlocked)),
            agent.episode_playbook.playbook,
            {"memory": agent.memory.to_data(), "fear": agent.forecaster.to_data()},
            tuple(loop.roles.sentinel.events),
            dict(world.facts()) if isinstance(world, ReportsMetrics) else EMPTY,
            {name: count for name, count in agent.episode_playbook.counts.items() if count},
        )
