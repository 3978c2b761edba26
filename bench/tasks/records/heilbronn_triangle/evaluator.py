"""Scores 11 points of a triangle by their smallest triangle, as a share of the whole one, in exact arithmetic."""

import importlib.util
import itertools
import math
from fractions import Fraction
from typing import Any

COUNT = 11


def evaluate(path: str) -> dict[str, Any]:
    return {"combined_score": measure(load(path).construct())}


def measure(rows: Any) -> float:
    """Returns the area of the smallest triangle of three points. The corners are (0, 0), (1, 0) and (0, 1).

    Areas relative to the whole triangle are the same in every triangle, so this one stands for all.

    Raises:
        ValueError: The rows are not 11 points, or a point leaves the triangle.
    """
    points = read(rows, COUNT, 2)
    for number, (x, y) in enumerate(points):
        if x < 0 or y < 0 or x + y > 1:
            raise ValueError(f"point {number} leaves the triangle")
    return float(min(abs(compute_area(*corners)) for corners in itertools.combinations(points, 3)))


def compute_area(first: list[Fraction], second: list[Fraction], third: list[Fraction]) -> Fraction:
    """Returns twice the signed area of a triangle."""
    return (second[0] - first[0]) * (third[1] - first[1]) - (second[1] - first[1]) * (third[0] - first[0])


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
