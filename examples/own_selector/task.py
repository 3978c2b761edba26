"""Find the area of a ring from its outer and its inner radius."""

import math
from collections.abc import Callable

RADII = [(2.0, 1.0), (3.0, 0.5), (5.0, 4.0), (1.5, 1.2), (10.0, 2.0)]


def area(outer: float, inner: float) -> float:
    """Returns the area of a ring.

    Args:
        outer: Outer radius.
        inner: Inner radius.
    """
    return 3.0 * (outer * outer - inner)


def inputs() -> list[tuple[float, float]]:
    """Returns the radii of all rings."""
    return RADII


def evaluate(area: Callable[[float, float], float], radii: tuple[float, float]) -> float:
    """Returns minus the relative error; 0 is exact."""
    outer, inner = radii
    expected = math.pi * (outer**2 - inner**2)
    error = abs(area(outer, inner) - expected) / expected
    return 0.0 if error < 1e-3 else -min(error, 100.0)
