"""Scores 14 points in 3 dimensions by their smallest and largest distance, in exact arithmetic."""

import importlib.util
import itertools
import math
from fractions import Fraction
from typing import Any

COUNT, DIMENSIONS = 14, 3


def evaluate(path: str) -> dict[str, Any]:
    return {"combined_score": measure(load(path).construct())}


def measure(rows: Any) -> float:
    """Returns the squared ratio of the smallest distance to the largest.

    Raises:
        ValueError: The rows are not 14 points, or all points are equal.
    """
    points = read(rows, COUNT, DIMENSIONS)
    pairs = itertools.combinations(points, 2)
    squares = [sum((one - two) ** 2 for one, two in zip(*pair, strict=True)) for pair in pairs]
    if max(squares) == 0:
        raise ValueError("all points are equal")
    return float(Fraction(min(squares)) / max(squares))


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
