"""The three worlds, fixed before any agent was written; and what signs mean in a family of worlds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from atoll import errors

SIGNS = ("arrow", "comb", "cross", "hook", "ring", "spiral", "star", "triangle", "wave")
LAVA, PIT, GAS, THORNS, NO_HAZARD = "lava", "pit", "gas", "thorns", "nothing"
HAZARDS = (LAVA, PIT, GAS, THORNS)


@dataclass(frozen=True, slots=True)
class Preset:
    """The rules of a world.

    Attributes:
        size: Cells on a side.
        max_ticks: When an episode ends for whoever is still alive.
        hunger, thirst: What a tick takes of food and water, of 1.
        cold: What a tick of night outside a shelter takes of life.
        bushes, pools, shelters: How many there are.
        meal: What a bush gives; it grows again after `regrow` ticks.
        drinks: How often a pool gives water before it has to fill again, for `regrow` ticks.
        rocks: The share of cells that nobody can enter.
        fields: Fields of signs with a hazard, for each kind of hazard.
        decoys: Fields of signs that mean nothing.
        field_size: Cells of a field.
        beasts: How many there are; they hunt at night.
        day, night: Ticks of light and of darkness.
        sight, night_sight: How far one sees.
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
    """Returns a preset by its name.

    Raises:
        SetupError: There is none of that name.
    """
    if name not in PRESETS:
        raise errors.SetupError(f"There is no world {name!r}: there are {', '.join(PRESETS)}.")
    return PRESETS[name]


def assign_meanings(preset: Preset, family: int) -> Mapping[str, str]:
    """Returns what every sign means in a family of worlds: two signs for each hazard or none, as the dice fall.

    Nobody inside a world is told: that a sign means lava can only come from experience.
    """
    signs = list(SIGNS)
    Random(f"{preset.name}/family/{family}").shuffle(signs)
    kinds = [*HAZARDS, NO_HAZARD, NO_HAZARD, NO_HAZARD, LAVA, GAS]
    return dict(zip(signs, kinds, strict=True))
