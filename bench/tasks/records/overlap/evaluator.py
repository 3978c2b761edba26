"""Scores a step function by Erdős' minimum overlap, in exact arithmetic."""

import importlib.util
import math
from fractions import Fraction
from typing import Any

MAX_STEPS = 400


def evaluate(path: str) -> dict[str, Any]:
    return {"combined_score": -measure(load(path).construct())}


def measure(heights: Any) -> float:
    """Returns the largest overlap of a function h on [0, 2] and 1 - h, over all shifts.

    The heights are those of h on equal steps, up to a factor that makes its integral 1. Between shifts by whole steps
    the overlap is linear, so the largest is at one of these.

    Raises:
        ValueError: The heights are not a list of numbers, or h leaves [0, 1].
    """
    numbers = [float(value) for value in list(heights)[: MAX_STEPS + 1]]
    if not 2 <= len(numbers) <= MAX_STEPS or not all(math.isfinite(value) and 0 <= value < 1e6 for value in numbers):
        raise ValueError(f"construct must return 2 to {MAX_STEPS} heights of 0 or more")
    count, total = len(numbers), sum(map(Fraction, numbers))
    if 2 * total * Fraction(1, count) == 0:
        raise ValueError("all heights are 0")
    values = [Fraction(value) * count / (2 * total) for value in numbers]
    if max(values) > 1:
        raise ValueError(f"with integral 1 the largest height is {float(max(values))}, above 1")
    # Whole numbers with a common denominator are exact, and much faster than fractions.
    whole = math.lcm(*(value.denominator for value in values))
    ups = [int(value * whole) for value in values]
    downs = [whole - value for value in ups]
    overlaps = (
        sum(up * down for up, down in zip(ups[max(0, -shift) :], downs[max(0, shift) :], strict=False))
        for shift in range(1 - count, count)
    )
    return float(Fraction(2 * max(overlaps), count * whole**2))


def load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program
