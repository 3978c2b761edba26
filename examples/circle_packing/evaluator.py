"""Scores a packing of 12 circles in the unit square by the sum of their radii."""

import importlib.util
import math
from typing import Any

COUNT, TOLERANCE = 12, 1e-9


def evaluate(path: str) -> dict[str, Any]:
    """Returns the sum of the radii. A circle outside of the square, or an overlap, is an error."""
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    circles = [tuple(map(float, circle)) for circle in program.pack(COUNT)]
    if len(circles) != COUNT or not all(math.isfinite(number) for circle in circles for number in circle):
        raise ValueError(f"pack must return {COUNT} rows of x, y and radius")
    for number, (x, y, radius) in enumerate(circles):
        if radius < 0 or min(x, y) - radius < -TOLERANCE or max(x, y) + radius > 1 + TOLERANCE:
            raise ValueError(f"circle {number} leaves the unit square")
        for other, (other_x, other_y, other_radius) in enumerate(circles[:number]):
            gap = math.dist((x, y), (other_x, other_y)) - radius - other_radius
            if gap < -TOLERANCE:
                raise ValueError(f"circles {other} and {number} overlap by {-gap:.3g}")
    return {"combined_score": sum(radius for _, _, radius in circles)}
