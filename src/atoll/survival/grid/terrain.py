"""Terrain of a grid world, shared by all bodies: tiles, regrowth and beasts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from atoll.survival.grid.presets import NO_HAZARD, Preset, assign_meanings

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
