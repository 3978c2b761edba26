"""Find the formula for the energy of a moving object from its mass and speed."""

import math
from collections.abc import Callable

# object, mass (kg), speed (m/s), energy (J)
TABLE = [
    ("a snail", 0.01, 0.013, 0.000000845),
    ("a tennis ball", 0.057, 50, 71.25),
    ("a runner", 70, 10, 3500),
    ("a horse", 500, 12, 36000),
    ("a car in town", 1200, 14, 117600),
    ("a jumbo jet", 300000, 250, 9375000000),
]


def energy(mass: float, speed: float) -> float:
    """Returns the energy of an object in joules.

    Args:
        mass: In kilograms.
        speed: In meters per second.
    """
    return mass


def inputs() -> list[tuple[float, float, float]]:
    """Returns the rows of the table without their names."""
    return [row[1:] for row in TABLE]


def evaluate(energy: Callable[[float, float], float], row: tuple[float, float, float]) -> float:
    """Returns the negative error in powers of two: 0 is exact, -1 is wrong by a factor of 2."""
    mass, speed, measured = row
    predicted = energy(mass, speed)
    if predicted <= 0:
        return -100.0
    error = abs(math.log2(predicted / measured))
    return 0.0 if error < 1e-9 else -min(error, 100.0)
