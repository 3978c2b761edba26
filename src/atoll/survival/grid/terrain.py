"""The ground that everybody in a world shares: what lies where, what grows again, who prowls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from atoll.survival.grid.presets import NOTHING, Preset, meanings

type Spot = tuple[int, int]

GROUND, ROCK, BUSH, BARE, POOL, DRY, SHELTER, BEAST = (
    "ground",
    "rock",
    "bush",
    "bare bush",
    "pool",
    "dry pool",
    "shelter",
    "beast",
)
STEPS: Mapping[str, Spot] = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}
HUNT_RANGE = 4


@dataclass(slots=True)
class Terrain:
    """One world: made from its seed, changed by time and by those who live in it."""

    preset: Preset
    signs: Mapping[str, str]
    rng: Random
    things: dict[Spot, str] = field(default_factory=dict)
    marks: dict[Spot, str] = field(default_factory=dict)
    stock: dict[Spot, int] = field(default_factory=dict)
    ripens_at: dict[Spot, int] = field(default_factory=dict)
    beasts: list[Spot] = field(default_factory=list)
    starts: Sequence[Spot] = ()
    tick: int = 0

    @property
    def is_night(self) -> bool:
        return self.tick % (self.preset.day + self.preset.night) >= self.preset.day

    @property
    def sight(self) -> int:
        return self.preset.night_sight if self.is_night else self.preset.sight

    def is_inside(self, spot: Spot) -> bool:
        return 0 <= spot[0] < self.preset.size and 0 <= spot[1] < self.preset.size

    def is_open(self, spot: Spot) -> bool:
        return self.is_inside(spot) and self.things.get(spot) != ROCK

    def hazard(self, spot: Spot) -> str:
        """Returns what the sign on a cell means: a hazard, or nothing."""
        mark = self.marks.get(spot)
        return NOTHING if mark is None else self.signs[mark]

    def look(self, spot: Spot) -> str:
        """Returns what somebody sees there: never what it means."""
        if not self.is_inside(spot):
            return ROCK
        if spot in self.beasts:
            return BEAST
        mark = self.marks.get(spot)
        return self.things.get(spot, GROUND) if mark is None else f"sign {mark}"

    def gather(self, spot: Spot) -> str | None:
        """Takes what grows on a cell; returns `food`, `water` or None."""
        thing = self.things.get(spot)
        if thing not in (BUSH, POOL):
            return None
        self.stock[spot] -= 1
        if self.stock[spot] <= 0:
            self.things[spot] = BARE if thing == BUSH else DRY
            self.ripens_at[spot] = self.tick + self.preset.regrow
        return "food" if thing == BUSH else "water"

    def pass_time(self, bodies: Sequence[Spot]) -> None:
        """Lets a tick pass: what was eaten grows again, beasts roam by day and hunt by night."""
        self.tick += 1
        for spot in [spot for spot, when in self.ripens_at.items() if when <= self.tick]:
            del self.ripens_at[spot]
            is_bush = self.things[spot] == BARE
            self.things[spot] = BUSH if is_bush else POOL
            self.stock[spot] = 1 if is_bush else self.preset.drinks
        self.beasts = [self._prowl(beast, bodies) for beast in self.beasts]

    def _prowl(self, beast: Spot, bodies: Sequence[Spot]) -> Spot:
        if self.rng.random() < 0.3:  # slower than whoever runs
            return beast
        near = [body for body in bodies if distance(body, beast) <= HUNT_RANGE and self.things.get(body) != SHELTER]
        options = [each for each in around(beast) if self._may_prowl(each)]
        if not options:
            return beast
        if near and self.is_night:
            prey = min(near, key=lambda body: distance(body, beast))
            return min(options, key=lambda each: distance(each, prey))
        return self.rng.choice(options)

    def _may_prowl(self, spot: Spot) -> bool:
        return self.is_open(spot) and self.things.get(spot) != SHELTER and spot not in self.beasts


def distance(one: Spot, other: Spot) -> int:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def around(spot: Spot) -> Sequence[Spot]:
    """Returns the four neighbours of a cell."""
    x, y = spot
    return ((x, y - 1), (x + 1, y), (x, y + 1), (x - 1, y))


def make_terrain(preset: Preset, seed: int, family: int, num_bodies: int = 1) -> Terrain:
    """Draws a world: all that is there comes from the seed, what signs mean from the family."""
    terrain = Terrain(preset, meanings(preset, family), Random(f"{preset.name}/{seed}"))
    rng = terrain.rng
    free = [(x, y) for x in range(preset.size) for y in range(preset.size)]
    rng.shuffle(free)
    middle = (preset.size // 2, preset.size // 2)
    starts = sorted(free, key=lambda spot: distance(spot, middle))[:num_bodies]
    taken = {spot for spot in free if any(distance(spot, start) <= 1 for start in starts)}
    terrain.starts = starts
    _place_fields(terrain, free, taken)
    rest = [spot for spot in free if spot not in taken]
    rocks = int(preset.rocks * preset.size**2)
    counts = {BUSH: preset.bushes, POOL: preset.pools, SHELTER: preset.shelters, ROCK: rocks}
    for thing, count in counts.items():
        for _ in range(min(count, len(rest))):
            spot = rest.pop()
            terrain.things[spot] = thing
            terrain.stock[spot] = 1 if thing == BUSH else preset.drinks
    far = [spot for spot in rest if all(distance(spot, start) > HUNT_RANGE for start in starts)]
    terrain.beasts = far[: preset.beasts]
    return terrain


def _place_fields(terrain: Terrain, free: Sequence[Spot], taken: set[Spot]) -> None:
    """Puts fields of signs on the ground; every field has one sign, and what it means is the family's."""
    by_kind: dict[str, list[str]] = {}
    for sign, kind in terrain.signs.items():
        by_kind.setdefault(kind, []).append(sign)
    wanted = [*terrain.preset.fields.items(), (NOTHING, terrain.preset.decoys)]
    for kind, count in wanted:
        for _ in range(count):
            mark = terrain.rng.choice(by_kind[kind])
            _grow(terrain, mark, terrain.rng.choice(free), taken)


def _grow(terrain: Terrain, mark: str, start: Spot, taken: set[Spot]) -> None:
    edge = [start]
    for _ in range(terrain.preset.field_size):
        edge = [spot for spot in edge if terrain.is_inside(spot) and spot not in taken]
        if not edge:
            return
        spot = terrain.rng.choice(edge)
        taken.add(spot)
        terrain.marks[spot] = mark
        edge += around(spot)
