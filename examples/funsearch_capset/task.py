"""Find a priority by which a greedy search builds large cap sets: points of {0, 1, 2}^n with no three on a line."""

import itertools
from collections.abc import Callable

import numpy as np


def priority(el: tuple[int, ...], n: int) -> float:
    """Returns how early a point should be tried; the greedy search takes the highest first.

    Args:
        el: A point of {0, 1, 2}^n.
        n: The number of its coordinates.
    """
    return 0.0


def inputs() -> list[int]:
    """Returns the dimensions; the largest cap sets known have 9, 20 and 45 points."""
    return [3, 4, 5]


def evaluate(priority: Callable[[tuple[int, ...], int], float], n: int) -> float:
    """Returns the size of the cap set that the greedy search builds in dimension n."""
    points = np.array(list(itertools.product((0, 1, 2), repeat=n)))
    powers = 3 ** np.arange(n)[::-1]
    urgency = np.array([float(priority(tuple(int(each) for each in point), n)) for point in points])
    if not np.isfinite(urgency).all():
        return float("nan")
    is_open = np.ones(len(points), dtype=bool)
    taken: list[int] = []
    for index in np.argsort(-urgency, kind="stable"):
        if is_open[index]:
            # The third point on the line through two others is minus their sum, modulo 3.
            thirds = (-points[taken] - points[index]) % 3 if taken else np.empty((0, n), dtype=int)
            is_open[thirds @ powers] = False
            taken.append(int(index))
    return float(len(taken))
