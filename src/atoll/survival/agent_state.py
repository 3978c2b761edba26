"""State of an agent during one episode. Only the playbook, notes and forecasts pass to the next episode."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from atoll.survival.beliefs import Beliefs, RecipeBook
from atoll.survival.drives import Forecaster, RandomDistillation, VisitCounts
from atoll.survival.plan import ExecutedAction
from atoll.survival.roles.memory import EpisodePlaybook, Memory
from atoll.survival.world_map import WorldMap
from atoll.survival.worlds.world import Observation, World


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Features of an agent and their strength.

    Attributes:
        danger_threshold: The engine stops or evades an action with a higher chance of damage.
        exploration_bonus: Factor of every novelty bonus.
    """

    has_playbook: bool = True
    has_fear: bool = True
    has_curiosity: bool = True
    danger_threshold: float = 0.7
    exploration_bonus: float = 1.0


@dataclass(slots=True)
class AgentState:
    """State of one episode, shared by all roles.

    Attributes:
        curiosity_weight: Weight of curiosity against survival. The reward synthesizer adjusts it.
        consumption_rates: Observed consumption of each resource per tick.
        day_start: Tick at which this day began.
        exploration: How much to explore next, as stated by the thinker, 0 to 2; 1 changes nothing.
        exploration_trust: Weight of that statement. It grows when the statement fits the next turn.
    """

    world: World
    settings: AgentSettings
    memory: Memory
    episode_playbook: EpisodePlaybook
    forecaster: Forecaster
    beliefs: Beliefs = field(default_factory=Beliefs)
    world_map: WorldMap = field(default_factory=WorldMap)
    visit_counts: VisitCounts = field(default_factory=VisitCounts)
    distillation: RandomDistillation = field(default_factory=RandomDistillation)
    recipe_book: RecipeBook = field(default_factory=RecipeBook)
    curiosity_weight: float = 1.0
    consumption_rates: dict[str, float] = field(default_factory=dict)
    day_start: int = 0
    exploration: float = 1.0
    exploration_trust: float = 0.5
    _recalled_topics: set[str] = field(default_factory=set)

    @property
    def curiosity(self) -> float:
        if not self.settings.has_curiosity:
            return 0.0
        stated_factor = 1.0 + self.exploration_trust * (self.exploration - 1.0)
        return self.curiosity_weight * self.settings.exploration_bonus * stated_factor

    def follow_exploration(self, exploration: float, steps: Sequence[ExecutedAction]) -> None:
        """Takes the thinker's statement for the next turn, and learns how far to trust it.

        More exploration was right if the turn brought no damage, less was right if it did.
        """
        if self.exploration != 1.0:
            is_hurt = any(step.after.harm for step in steps)
            is_right = is_hurt == (self.exploration < 1.0)
            self.exploration_trust = min(1.0, max(0.0, self.exploration_trust + (0.05 if is_right else -0.05)))
        self.exploration = min(2.0, max(0.0, exploration))

    @property
    def prior(self) -> float:
        return self.forecaster.prior

    def recall(self, topic: str) -> None:
        """Reads the playbook bullets about a topic, once per episode."""
        if self.settings.has_playbook and topic not in self._recalled_topics:
            self._recalled_topics.add(topic)
            bullets = self.episode_playbook.find_bullets(topic)
            self.beliefs.read_bullets(bullets)
            self.recipe_book.read_bullets(bullets)

    def perceive(self, observation: Observation) -> list[tuple[str, str, int]]:
        """Updates the map; returns (old tile, new tile, ticks in between) of each change."""
        for tile in observation.tiles.values():
            if tile not in self._recalled_topics:
                self.recall(tile)
        changes = self.world_map.update(observation)
        return [(old_tile, new_tile, ticks) for _, old_tile, new_tile, ticks in changes]

    def ticks_to_dusk(self, tick: int) -> float:
        """Returns the ticks until night, or infinity if the length of a day is unknown."""
        daylight = self.beliefs.daylight
        return float("inf") if daylight is None else max(0.0, self.day_start + daylight - tick)
