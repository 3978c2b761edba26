"""Body of an agent in a grid world: life, food and water, and the effects of a tick."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from atoll.survival.grid.presets import GAS, LAVA, NO_HAZARD, PIT, THORNS
from atoll.survival.grid.terrain import MOVES, SHELTER, Cell, Terrain

ACTIONS = ("wait", "north", "east", "south", "west", "gather")
HAZARD_DAMAGE: Mapping[str, float] = {LAVA: 0.35, PIT: 0.2, GAS: 0.12, THORNS: 0.08}
BEAST_DAMAGE, STARVATION_DAMAGE, HEAL_RATE = 0.2, 0.05, 0.02
PIT_TICKS = 3
DRINK_AMOUNT = 0.6
MIN_HEAL_LEVEL = 0.3  # life recovers with more food and water than this


@dataclass(slots=True)
class Body:
    """Body in a terrain.

    Attributes:
        stuck: Ticks that it remains in a pit.
        harm: Life lost in the last tick, by cause.
        gained: Gain of the last tick, `food` or `water`.
    """

    cell: Cell
    life: float = 1.0
    food: float = 1.0
    water: float = 1.0
    stuck: int = 0
    harm: dict[str, float] = field(default_factory=dict)
    gained: str | None = None
    cause: str | None = None

    @property
    def is_alive(self) -> bool:
        return self.life > 0

    def act(self, terrain: Terrain, action: str) -> None:
        """Moves or gathers, and applies the effect of the new cell."""
        self.harm, self.gained = {}, None
        has_entered = False
        if self.stuck:
            self.stuck -= 1
        elif action in MOVES:
            dx, dy = MOVES[action]
            target = (self.cell[0] + dx, self.cell[1] + dy)
            has_entered = terrain.is_open(target)
            self.cell = target if has_entered else self.cell
        elif action == "gather":
            self._gather(terrain)
        hazard = terrain.get_hazard(self.cell)
        if hazard == PIT and has_entered:
            self.stuck = PIT_TICKS
        if hazard != NO_HAZARD and (hazard != PIT or has_entered):
            self._damage(hazard, HAZARD_DAMAGE[hazard])

    def _gather(self, terrain: Terrain) -> None:
        self.gained = terrain.gather(self.cell)
        if self.gained == "food":
            self.food = min(1.0, self.food + terrain.preset.meal)
        elif self.gained == "water":
            self.water = min(1.0, self.water + DRINK_AMOUNT)

    def apply_tick(self, terrain: Terrain) -> None:
        """Applies one tick of metabolism, beasts and cold, after the tick of the terrain."""
        preset = terrain.preset
        is_sheltered = terrain.things.get(self.cell) == SHELTER
        if self.cell in terrain.beasts:
            self._damage("beast", BEAST_DAMAGE)
        if terrain.is_night and not is_sheltered:
            self._damage("cold", preset.cold)
        self.food, self.water = max(0.0, self.food - preset.hunger), max(0.0, self.water - preset.thirst)
        if self.food == 0:
            self._damage("hunger", STARVATION_DAMAGE)
        if self.water == 0:
            self._damage("thirst", STARVATION_DAMAGE)
        if self.is_alive and not self.harm and min(self.food, self.water) > MIN_HEAL_LEVEL:
            self.life = min(1.0, self.life + HEAL_RATE * (2 if is_sheltered else 1))

    def _damage(self, cause: str, amount: float) -> None:
        if self.life > 0:
            self.harm[cause] = self.harm.get(cause, 0.0) + amount
            self.life -= amount
            if self.life <= 1e-9:
                self.life, self.cause = 0.0, cause
