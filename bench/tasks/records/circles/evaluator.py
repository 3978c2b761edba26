"""Scores 26 circles in the unit square by the sum of their radii, checked in exact arithmetic."""

import importlib.util
import math
from fractions import Fraction
from typing import Any

COUNT = 26


def evaluate(path: str) -> dict[str, Any]:
    return {"combined_score": measure(load(path).construct())}


def measure(rows: Any) -> float:
    """Returns the sum of the radii.

    Raises:
        ValueError: The rows are not 26 circles, or circles overlap or leave the square.
    """
    circles = read(rows, COUNT, 3)
    for number, (x, y, radius) in enumerate(circles):
        if radius < 0 or min(x, y) < radius or max(x, y) + radius > 1:
            raise ValueError(f"circle {number} leaves the unit square")
        for other, (other_x, other_y, other_radius) in enumerate(circles[:number]):
            if (x - other_x) ** 2 + (y - other_y) ** 2 < (radius + other_radius) ** 2:
                raise ValueError(f"circles {other} and {number} overlap")
    return float(sum(radius for _, _, radius in circles))


def read(rows: Any, count: int, width: int) -> list[list[Fraction]]:
    """Returns the rows as exact numbers."""
    numbers = [[float(value) for value in row] for row in list(rows)[: count + 1]]
    if len(numbers) != count or any(len(row) != width for row in numbers):
        raise ValueError(f"construct must return {count} rows of {width} numbers")
    if not all(math.isfinite(value) and abs(value) < 1e6 for row in numbers for value in row):
        raise ValueError("all numbers must be finite and below a million")
    return [[Fraction(value) for value in row] for row in numbers]


def load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program
