"""Searches for the lowest point of a bumpy valley."""

import math
import random


def height(x: float, y: float) -> float:
    """Returns the height at a point. It has many local minima and one lowest point."""
    return math.sin(3 * x) * math.cos(3 * y) + 0.1 * (x * x + y * y) + 0.3 * math.sin(11 * x + 1)


# EVOLVE-BLOCK-START
def search(num_tries: int, seed: int) -> tuple[float, float]:
    """Returns the lowest of `num_tries` random points."""
    rng = random.Random(seed)
    best = (0.0, 0.0)
    for _ in range(num_tries):
        x = rng.uniform(-5, 5)
        y = rng.uniform(-5, 5)
        if height(x, y) < height(best[0], best[1]):
            best = (x, y)
    return best


# EVOLVE-BLOCK-END
