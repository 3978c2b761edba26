"""Terrain of a grid world: three preset worlds, the meaning of their signs, tiles, regrowth and beasts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from atoll import errors

SIGNS = ("arrow", "comb", "cross", "hook", "ring", "spiral", "star", "triangle", "wave")
LAVA, PIT, GAS, THORNS, NO_HAZARD = "lava", "pit", "gas", "thorns", "nothing"
HAZARDS = (LAVA, PIT, GAS, THORNS)


@dataclass(frozen=True, slots=True)
class Preset:
    """Rules of a world.

    Attributes:
        size: Cells per side.
        max_ticks: Maximum length of an episode.
        hunger, thirst: Food and water lost per tick, of 1.
        cold: Life lost per tick at night outside a shelter.
        bushes, pools, shelters: Their number.
        meal: Food from a bush, which regrows after `regrow` ticks.
        drinks: Drinks from a pool before it needs `regrow` ticks to refill.
        rocks: Share of cells that cannot be entered.
        fields: Sign fields per kind of hazard.
        decoys: Sign fields without a hazard.
        field_size: Cells per field.
        beasts: Their number; they hunt at night.
        day, night: Ticks of light and of darkness.
        sight, night_sight: Viewing distance.
    """

    name: str
    size: int = 15
    max_ticks: int = 300
    hunger: float = 1 / 45
    thirst: float = 1 / 35
    cold: float = 0.01
    bushes: int = 12
    pools: int = 7
    shelters: int = 3
    meal: float = 0.6
    regrow: int = 40
    drinks: int = 2
    rocks: float = 0.05
    fields: Mapping[str, int] = field(default_factory=dict)
    decoys: int = 5
    field_size: int = 3
    beasts: int = 1
    day: int = 40
    night: int = 15
    sight: int = 3
    night_sight: int = 1


PRESETS: Mapping[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset("meadow", fields={LAVA: 2, PIT: 2, GAS: 2, THORNS: 2}),
        Preset(
            "caldera", fields={LAVA: 4, PIT: 2, GAS: 3, THORNS: 1}, decoys=8, beasts=0, bushes=14, pools=8, night=10
        ),
        Preset(
            "tundra",
            fields={LAVA: 1, PIT: 2, GAS: 1, THORNS: 4},
            decoys=7,
            beasts=2,
            cold=0.015,
            day=30,
            night=20,
            shelters=6,
            bushes=14,
            pools=8,
        ),
    )
}


def get_preset(name: str) -> Preset:
    """Returns a preset by name.

    Raises:
        SetupError: Unknown name.
    """
    if name not in PRESETS:
        raise errors.SetupError(f"Unknown world {name!r}. Use one of {', '.join(PRESETS)}.")
    return PRESETS[name]


def assign_meanings(preset: Preset, family: int) -> Mapping[str, str]:
    """Returns the random meaning of every sign in a family of worlds. Three signs are harmless.

    Agents never see these meanings. They must learn them from experience.
    """
    signs = list(SIGNS)
    Random(f"{preset.name}/family/{family}").shuffle(signs)
    kinds = [*HAZARDS, NO_HAZARD, NO_HAZARD, NO_HAZARD, LAVA, GAS]
    return dict(zip(signs, kinds, strict=True))


type Cell = tuple[int, int]

GROUND, ROCK, SHELTER, BEAST = "ground", "rock", "shelter", "beast"
BUSH, BARE_BUSH, POOL, DRY_POOL = "bush", "bare bush", "pool", "dry pool"
MOVES: Mapping[str, Cell] = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}
HUNT_RANGE = 4


@dataclass(slots=True)
class Terrain:
    """One world, generated from a seed and changed by time and agents."""

    preset: Preset
    sign_meanings: Mapping[str, str]
    rng: Random
    things: dict[Cell, str] = field(default_factory=dict)
    cell_signs: dict[Cell, str] = field(default_factory=dict)
    stock: dict[Cell, int] = field(default_factory=dict)
    ripens_at: dict[Cell, int] = field(default_factory=dict)
    beasts: list[Cell] = field(default_factory=list)
    starts: Sequence[Cell] = ()
    tick: int = 0

    @property
    def is_night(self) -> bool:
        return self.tick % (self.preset.day + self.preset.night) >= self.preset.day

    @property
    def sight(self) -> int:
        return self.preset.night_sight if self.is_night else self.preset.sight

    def is_inside(self, cell: Cell) -> bool:
        return 0 <= cell[0] < self.preset.size and 0 <= cell[1] < self.preset.size

    def is_open(self, cell: Cell) -> bool:
        return self.is_inside(cell) and self.things.get(cell) != ROCK

    def get_hazard(self, cell: Cell) -> str:
        """Returns the meaning of the sign on a cell: a hazard or harmless."""
        sign = self.cell_signs.get(cell)
        return NO_HAZARD if sign is None else self.sign_meanings[sign]

    def get_tile(self, cell: Cell) -> str:
        """Returns the visible tile of a cell, never the meaning of a sign."""
        if not self.is_inside(cell):
            return ROCK
        if cell in self.beasts:
            return BEAST
        sign = self.cell_signs.get(cell)
        return self.things.get(cell, GROUND) if sign is None else f"sign {sign}"

    def gather(self, cell: Cell) -> str | None:
        """Takes the food or water of a cell; returns `food`, `water` or None."""
        thing = self.things.get(cell)
        if thing not in (BUSH, POOL):
            return None
        self.stock[cell] -= 1
        if self.stock[cell] <= 0:
            self.things[cell] = BARE_BUSH if thing == BUSH else DRY_POOL
            self.ripens_at[cell] = self.tick + self.preset.regrow
        return "food" if thing == BUSH else "water"

    def pass_time(self, bodies: Sequence[Cell]) -> None:
        """Advances one tick: plants regrow, beasts roam by day and hunt by night."""
        self.tick += 1
        for cell in [cell for cell, ripe_tick in self.ripens_at.items() if ripe_tick <= self.tick]:
            del self.ripens_at[cell]
            is_bush = self.things[cell] == BARE_BUSH
            self.things[cell] = BUSH if is_bush else POOL
            self.stock[cell] = 1 if is_bush else self.preset.drinks
        self.beasts = [self._move_beast(beast, bodies) for beast in self.beasts]

    def _move_beast(self, beast: Cell, bodies: Sequence[Cell]) -> Cell:
        if self.rng.random() < 0.3:  # slower than a running agent
            return beast
        prey_cells = [
            body for body in bodies if distance(body, beast) <= HUNT_RANGE and self.things.get(body) != SHELTER
        ]
        options = [cell for cell in get_neighbors(beast) if self._can_enter(cell)]
        if not options:
            return beast
        if prey_cells and self.is_night:
            prey = min(prey_cells, key=lambda body: distance(body, beast))
            return min(options, key=lambda cell: distance(cell, prey))
        return self.rng.choice(options)

    def _can_enter(self, cell: Cell) -> bool:
        return self.is_open(cell) and self.things.get(cell) != SHELTER and cell not in self.beasts


def distance(first: Cell, second: Cell) -> int:
    return abs(first[0] - second[0]) + abs(first[1] - second[1])


def get_neighbors(cell: Cell) -> Sequence[Cell]:
    x, y = cell
    return ((x, y - 1), (x + 1, y), (x, y + 1), (x - 1, y))


def make_terrain(preset: Preset, seed: int, family: int, num_bodies: int = 1) -> Terrain:
    """Generates a world: the map from the seed, the meaning of signs from the family."""
    terrain = Terrain(preset, assign_meanings(preset, family), Random(f"{preset.name}/{seed}"))
    rng = terrain.rng
    cells = [(x, y) for x in range(preset.size) for y in range(preset.size)]
    rng.shuffle(cells)
    center = (preset.size // 2, preset.size // 2)
    starts = sorted(cells, key=lambda cell: distance(cell, center))[:num_bodies]
    taken = {cell for cell in cells if any(distance(cell, start) <= 1 for start in starts)}
    terrain.starts = starts
    _place_fields(terrain, cells, taken)
    free_cells = [cell for cell in cells if cell not in taken]
    rocks = int(preset.rocks * preset.size**2)
    counts = {BUSH: preset.bushes, POOL: preset.pools, SHELTER: preset.shelters, ROCK: rocks}
    for thing, count in counts.items():
        for _ in range(min(count, len(free_cells))):
            cell = free_cells.pop()
            terrain.things[cell] = thing
            terrain.stock[cell] = 1 if thing == BUSH else preset.drinks
    distant_cells = [cell for cell in free_cells if all(distance(cell, start) > HUNT_RANGE for start in starts)]
    terrain.beasts = distant_cells[: preset.beasts]
    return terrain


def _place_fields(terrain: Terrain, cells: Sequence[Cell], taken: set[Cell]) -> None:
    """Places fields of signs. Each field has one sign, whose meaning depends on the family."""
    by_kind: dict[str, list[str]] = {}
    for sign, kind in terrain.sign_meanings.items():
        by_kind.setdefault(kind, []).append(sign)
    fields = [*terrain.preset.fields.items(), (NO_HAZARD, terrain.preset.decoys)]
    for kind, count in fields:
        for _ in range(count):
            chosen_sign = terrain.rng.choice(by_kind[kind])
            _grow_field(terrain, chosen_sign, terrain.rng.choice(cells), taken)


def _grow_field(terrain: Terrain, sign: str, start: Cell, taken: set[Cell]) -> None:
    frontier = [start]
    for _ in range(terrain.preset.field_size):
        frontier = [cell for cell in frontier if terrain.is_inside(cell) and cell not in taken]
        if not frontier:
            return
        cell = terrain.rng.choice(frontier)
        taken.add(cell)
        terrain.cell_signs[cell] = sign
        frontier += get_neighbors(cell)
