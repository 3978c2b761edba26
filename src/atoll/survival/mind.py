"""All that an agent knows and feels during one life; between lives only the playbook and a little else go on."""

from dataclasses import dataclass, field

from atoll.survival.atlas import Atlas
from atoll.survival.curiosity import Counts, RandomDistillation
from atoll.survival.fear import Forecaster
from atoll.survival.lore import Lore
from atoll.survival.roles.memory import Memory
from atoll.survival.roles.shelf import Shelf
from atoll.survival.workshop import Workshop
from atoll.survival.worlds.world import Observation, World


@dataclass(frozen=True, slots=True)
class Temper:
    """What an agent may feel and use, and how strongly.

    Attributes:
        danger_threshold: Above this chance of damage an action is not done: the engine stops or evades.
        exploration_bonus: Multiplies every bonus for what is new.
    """

    has_playbook: bool = True
    has_fear: bool = True
    has_curiosity: bool = True
    danger_threshold: float = 0.7
    exploration_bonus: float = 1.0


@dataclass(slots=True)
class Mind:
    """The state of one life, which the roles share.

    Attributes:
        coefficient: The weight of curiosity against survival; the reward synthesizer adjusts it.
        rates: What a tick takes of each resource, as observed.
        lit_since: When this day began.
    """

    world: World
    temper: Temper
    memory: Memory
    shelf: Shelf
    forecaster: Forecaster
    lore: Lore = field(default_factory=Lore)
    atlas: Atlas = field(default_factory=Atlas)
    counts: Counts = field(default_factory=Counts)
    distillation: RandomDistillation = field(default_factory=RandomDistillation)
    workshop: Workshop = field(default_factory=Workshop)
    coefficient: float = 1.0
    rates: dict[str, float] = field(default_factory=dict)
    lit_since: int = 0
    _recalled: set[str] = field(default_factory=set)

    @property
    def curiosity(self) -> float:
        return self.coefficient * self.temper.exploration_bonus if self.temper.has_curiosity else 0.0

    @property
    def prior(self) -> float:
        return self.forecaster.prior

    def recall(self, topic: str) -> None:
        """Looks up in the playbook what it says of something, once in a life."""
        if self.temper.has_playbook and topic not in self._recalled:
            self._recalled.add(topic)
            bullets = self.shelf.about(topic)
            self.lore.read(bullets)
            self.workshop.read(bullets)

    def perceive(self, seen: Observation) -> list[tuple[str, str, int]]:
        """Takes in a view; returns which looks turned into which, and after how long."""
        for look in seen.looks.values():
            if look not in self._recalled:
                self.recall(look)
        turned = self.atlas.see(seen)
        return [(before, now, ticks) for _, before, now, ticks in turned]

    def ticks_to_dusk(self, tick: int) -> float:
        """Returns how long it stays light, as far as anybody knows."""
        day = self.lore.daylight
        return float("inf") if day is None else max(0.0, self.lit_since + day - tick)
