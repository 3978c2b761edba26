"""One life from birth to death, and what is left of it."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from atoll import playbook
from atoll.candidate import JSON, NOTHING
from atoll.survival.fear import Forecaster, Said
from atoll.survival.loop import FeedbackLoop, Roles
from atoll.survival.mind import Mind, Temper
from atoll.survival.plan import LoopSnapshot
from atoll.survival.reins import Reins, Ruled, Telling
from atoll.survival.roles.memory import Memory
from atoll.survival.roles.shelf import Shelf
from atoll.survival.worlds.world import Observation, Reporting, World

PRIOR = 0.3  # where fear is measured after a life: what nobody tried


@dataclass(frozen=True, slots=True)
class Life:
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
    said: tuple[Said, ...]
    feared: int
    right: int | None
    corrections: int
    policy_changes: int
    unlocked: tuple[str, ...]
    book: playbook.Playbook
    state: Mapping[str, JSON]
    events: tuple[Mapping[str, JSON], ...] = ()
    facts: Mapping[str, float] = NOTHING
    counts: Mapping[str, int] = NOTHING

    def summary(self) -> dict[str, Any]:
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
            "said": [[round(each.forecast, 3), int(each.happened)] for each in self.said],
            "feared": self.feared,
            "right": self.right,
            "corrections": self.corrections,
            "policy_changes": self.policy_changes,
            "unlocked": list(self.unlocked),
            **({"facts": dict(self.facts)} if self.facts else {}),
        }


class Birth(NamedTuple):
    """Somebody who is about to live."""

    mind: Mind
    roles: Roles


@dataclass(slots=True)
class Living:
    """How lives are lived: who plays the roles, how long at most, and who is shown what."""

    curator: playbook.Curator
    make_roles: Callable[[Mind, int], Roles]
    temper: Temper = field(default_factory=Temper)
    horizon: int = 5
    max_turns: int = 10_000
    is_told: bool = False
    show: Callable[[LoopSnapshot], None] = lambda snapshot: None
    reins: Reins = field(default_factory=Reins)
    telling: Telling = field(default_factory=Telling)

    def live(
        self, world: World, book: playbook.Playbook, state: Mapping[str, Any], *, seed: int, episode: int = 0
    ) -> Life:
        """Lives one life in the world of a seed, beginning with a playbook and what the last life left."""
        born = self.birth(world, book, state, seed=seed)
        lived = self.begin(born, world.reset(seed), episode)
        while not lived.loop.seen.is_over and lived.loop.turn < self.max_turns:
            lived.turn()
        return lived.end()

    def birth(self, world: World, book: playbook.Playbook, state: Mapping[str, Any], *, seed: int) -> Birth:
        """Makes a mind and its roles."""
        memory = Memory.from_data(state.get("memory", {}))
        forecaster = Forecaster.from_data(state.get("fear", {}), self.horizon)
        mind = Mind(world, self.temper, memory, Shelf(book, self.curator), forecaster)
        return Birth(mind, self.make_roles(mind, seed))

    def begin(self, born: Birth, start: Observation, episode: int) -> "Lived":
        """Begins a life with what is seen first."""
        loop = FeedbackLoop(born.mind, born.roles, start, episode, is_told=self.is_told)
        loop.telling = self.telling
        return Lived(loop, self)


@dataclass(slots=True)
class Lived:
    """A life under way: its loop, and what was counted so far."""

    loop: FeedbackLoop
    living: Living
    reward: float = 0.0
    damage: float = 0.0
    unlocked: list[str] = field(default_factory=list)
    heard: Mapping[str, JSON] = NOTHING

    def turn(self) -> None:
        """Lives one turn, under what is wished by now, and waits as long as is set."""
        self._obey()
        snapshot = self.loop.step()
        for step in snapshot.steps:
            if step.status != "blocked":
                self.reward += step.after.reward
                self.damage += sum(step.after.harm.values())
                self.unlocked += step.after.unlocked
        self.living.show(snapshot)
        if not snapshot.observation.is_over:
            self.living.reins.wait()

    def _obey(self) -> None:
        """Takes in what people outside wish: what changes is logged, so that the turns tell when it came into force."""
        living, loop, wishes = self.living, self.loop, self.living.reins.wishes()
        loop.is_told = living.is_told or living.reins.is_shown(wishes)
        if wishes.settings == self.heard:
            return
        self.heard = wishes.settings
        ruled = Ruled(wishes.settings)
        temper, telling = ruled.temper(loop.mind.temper), ruled.telling(loop.telling)
        old, new = (
            {**asdict(one), **asdict(two)} for one, two in ((loop.mind.temper, loop.telling), (temper, telling))
        )
        if changed := {name: value for name, value in new.items() if old[name] != value}:
            loop.mind.temper, loop.telling = temper, telling
            loop.roles.sentinel.log("steered", loop.seen.tick, **changed)

    def end(self) -> Life:
        """Sums up, and writes a note for whoever lives next."""
        loop = self.loop
        mind, seen = loop.mind, loop.seen
        world = mind.world
        end = f"died of {seen.cause}" if seen.cause else "lived on"
        worst = ", ".join(f"{cause} {count} times" for cause, count in mind.memory.patterns())
        mind.memory.note(f"Life {loop.episode}: {end} after {seen.tick} ticks; what hurt: {worst or 'nothing'}.")
        feared, truth = mind.lore.feared(PRIOR), world.truth()
        return Life(
            loop.episode,
            self.reward if world.is_scored_by_reward else float(seen.tick),
            seen.tick,
            loop.turn,
            self.reward,
            dict(loop.roles.rewards.totals),
            seen.cause,
            sum(map(world.is_inside, mind.atlas.looks)) / world.num_cells if world.num_cells else 0.0,
            mind.atlas.bits,
            self.damage,
            loop.encounters,
            loop.avoided,
            tuple(mind.forecaster.said),
            len(feared),
            None if truth is None else sum(truth.get(look, False) for look in feared),
            mind.forecaster.corrections,
            mind.shelf.applied,
            tuple(dict.fromkeys(self.unlocked)),
            mind.shelf.playbook,
            {"memory": mind.memory.to_data(), "fear": mind.forecaster.to_data()},
            tuple(loop.roles.sentinel.events),
            dict(world.facts()) if isinstance(world, Reporting) else NOTHING,
            {name: count for name, count in mind.shelf.counts.items() if count},
        )
