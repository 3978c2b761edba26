"""The three preset worlds, fixed before any agent was written, and the meaning of signs in a family of worlds."""

from collections.abc import Mapping
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
