"""Find the formula that gives the energy of a moving thing from its mass and its speed."""

import math
from collections.abc import Callable

# thing, mass (kg), speed (m/s), energy (J)
TABLE = [
    ("a snail", 0.01, 0.013, 0.000000845),
    ("a tennis ball", 0.057, 50, 71.25),
    ("a runner", 70, 10, 3500),
    ("a horse", 500, 12, 36000),
    ("a car in town", 1200, 14, 117600),
    ("a jumbo jet", 300000, 250, 9375000000),
]


def energy(mass: float, speed: float) -> float:
    """Returns the energy of a thing in joules.

    Args:
        mass: In kilograms.
        speed: In metres per second.
    """
    return mass


def inputs() -> list[tuple[float, float, float]]:
    """Returns the rows of the table without their names."""
    return [row[1:] for row in TABLE]


def evaluate(energy: Callable[[float, float], float], row: tuple[float, float, float]) -> float:
    """Returns by how many powers of two the formula is off, below zero: 0 is exact, -1 is a factor of 2."""
    mass, speed, measured = row
    found = energy(mass, speed)
    if found <= 0:
        return -100.0
    off_by = abs(math.log2(found / measured))
    return 0.0 if off_by < 1e-9 else -min(off_by, 100.0)
