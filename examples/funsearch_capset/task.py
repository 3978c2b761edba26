"""Find a priority for a greedy search for large cap sets: points of {0, 1, 2}^n with no three on a line."""

import functools
import itertools
from collections.abc import Callable

import numpy as np


def priority(el: tuple[int, ...], n: int) -> float:
    """Returns the priority of a point. The greedy search tries the highest first.

    Args:
        el: A point of {0, 1, 2}^n.
        n: The number of its coordinates.
    """
    return 0.0


def inputs() -> list[int]:
    """Returns the dimensions. The largest known cap sets have 9, 20 and 45 points."""
    return [3, 4, 5]


def large() -> list[int]:
    """Returns higher dimensions. The largest known cap sets have 112 and 512 points."""
    return [6, 8]


def evaluate(priority: Callable[[tuple[int, ...], int], float], n: int) -> float:
    """Returns the size of the cap set of the greedy search in dimension n."""
    points = _points(n)
    priorities = np.array([float(priority(point, n)) for point in points])
    if not np.isfinite(priorities).all():
        return float("nan")
    is_open = np.ones(len(points), dtype=bool)
    taken, size = np.empty(len(points), dtype=np.int16), 0
    for index in np.argsort(-priorities, kind="stable").tolist():
        if is_open[index]:
            is_open[_thirds(n, index)[taken[:size]]] = False
            taken[size] = index
            size += 1
    return float(size)


@functools.cache
def _points(n: int) -> list[tuple[int, ...]]:
    return list(itertools.product((0, 1, 2), repeat=n))


@functools.cache
def _thirds(n: int, index: int) -> np.ndarray:
    """Returns the third point on each line through a point: minus the sum of both points, modulo 3."""
    points = np.array(_points(n), dtype=np.int16)
    return (-points - points[index]) % 3 @ (3 ** np.arange(n, dtype=np.int16)[::-1])
