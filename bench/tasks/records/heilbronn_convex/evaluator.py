"""Scores 13 points by their smallest triangle, as a share of their convex hull, in exact arithmetic."""

import importlib.util
import itertools
import math
from fractions import Fraction
from typing import Any

COUNT = 13


def evaluate(path: str) -> dict[str, Any]:
    return {"combined_score": measure(load(path).construct())}


def measure(rows: Any) -> float:
    """Returns the area of the smallest triangle of three points, divided by the area of the convex hull.

    Raises:
        ValueError: The rows are not 13 points, or all lie on a line.
    """
    points = read(rows, COUNT, 2)
    whole = compute_hull_area(points)
    if whole == 0:
        raise ValueError("all points lie on a line")
    return float(min(abs(compute_area(*corners)) for corners in itertools.combinations(points, 3)) / whole)


def compute_hull_area(points: list[list[Fraction]]) -> Fraction:
    """Returns twice the area of the convex hull."""
    ordered = sorted(points)
    hull = [*make_chain(ordered)[:-1], *make_chain(ordered[::-1])[:-1]]
    corners = zip(hull, [*hull[1:], *hull[:1]], strict=True)
    return sum((one[0] * two[1] - one[1] * two[0] for one, two in corners), Fraction(0))


def make_chain(points: list[list[Fraction]]) -> list[list[Fraction]]:
    """Returns the lower half of the hull, from the first point to the last."""
    chain: list[list[Fraction]] = []
    for point in points:
        while len(chain) > 1 and compute_area(chain[-2], chain[-1], point) <= 0:
            chain.pop()
        chain.append(point)
    return chain


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
