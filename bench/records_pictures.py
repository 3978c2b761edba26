"""Pictures of the constructions of `bench/records.py`, as SVG."""

import itertools
import math
from collections.abc import Sequence

type Points = Sequence[Sequence[float]]

SIZE, MARGIN = 240, 12
_NEAR = 1 + 1e-6  # distances and areas that differ by less count as equal
_LINE, _FILL, _DOT = "#3f51b5", "#c5cae9", "#1a237e"


def draw(name: str, construction: Sequence[object]) -> str:
    """Returns the picture of a construction.

    Args:
        name: Folder of the problem.
        construction: Rows of numbers, or heights.
    """
    if name == "overlap":
        return _wrap(_draw_steps([float(str(value)) for value in construction]))
    rows = [[float(value) for value in row] for row in construction if isinstance(row, list)]
    if name == "circles":
        return _wrap(_draw_circles(rows))
    if name == "heilbronn_triangle":
        corners = [(0.0, 0.0), (1.0, 0.0), (0.5, math.sqrt(0.75))]
        points = [(x + y / 2, y * math.sqrt(0.75)) for x, y in rows]
        return _wrap(_draw_points(points, corners, _find_smallest_triangles(points)))
    if name == "heilbronn_convex":
        return _wrap(_draw_points(rows, [], _find_smallest_triangles(rows)))
    lines = _find_pairs(rows)
    if name == "distances_3d":  # seen from the side
        rows = [[x + 0.35 * z, y + 0.2 * z] for x, y, z in rows]
    return _wrap(_draw_points(rows, [], lines))


def _wrap(shapes: Sequence[str]) -> str:
    body = "\n".join(shapes)
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {SIZE}" width="{SIZE}">\n{body}\n</svg>\n'


def _draw_circles(rows: Points) -> list[str]:
    inner = SIZE - 2 * MARGIN
    shapes = [f'<rect x="{MARGIN}" y="{MARGIN}" width="{inner}" height="{inner}" fill="none" stroke="{_LINE}"/>']
    for x, y, radius in rows:
        place = f'cx="{MARGIN + inner * x:.2f}" cy="{MARGIN + inner * (1 - y):.2f}" r="{inner * radius:.2f}"'
        shapes.append(f'<circle {place} fill="{_FILL}" stroke="{_LINE}"/>')
    return shapes


def _draw_points(points: Points, outline: Points, groups: Sequence[Sequence[int]]) -> list[str]:
    """Draws points, an outline, and lines through groups of points."""
    everything = [*points, *outline]
    lows = [min(point[axis] for point in everything) for axis in range(2)]
    extent = max(max(point[axis] for point in everything) - lows[axis] for axis in range(2))
    scale = (SIZE - 2 * MARGIN) / extent

    def place(point: Sequence[float]) -> str:
        return f"{MARGIN + scale * (point[0] - lows[0]):.2f},{SIZE - MARGIN - scale * (point[1] - lows[1]):.2f}"

    shapes = []
    if outline:
        corners = " ".join(map(place, outline))
        shapes.append(f'<polygon points="{corners}" fill="none" stroke="{_LINE}"/>')
    for group in groups:
        corners = " ".join(place(points[index]) for index in group)
        shapes.append(
            f'<polygon points="{corners}" fill="{_FILL}" fill-opacity="0.4" stroke="{_LINE}" stroke-width="0.5"/>'
        )
    for point in points:
        x, y = place(point).split(",")
        shapes.append(f'<circle cx="{x}" cy="{y}" r="3" fill="{_DOT}"/>')
    return shapes


def _draw_steps(heights: Sequence[float]) -> list[str]:
    factor = len(heights) / (2 * sum(heights))  # the integral is 1
    width, inner = (SIZE - 2 * MARGIN) / len(heights), SIZE - 2 * MARGIN
    floor = SIZE - MARGIN
    steps = [f"{MARGIN},{floor}"]
    for index, height in enumerate(heights):
        top = floor - inner * height * factor
        steps += [f"{MARGIN + width * index:.2f},{top:.2f}", f"{MARGIN + width * (index + 1):.2f},{top:.2f}"]
    return [f'<polygon points="{" ".join(steps)} {SIZE - MARGIN},{floor}" fill="{_FILL}" stroke="{_LINE}"/>']


def _find_smallest_triangles(points: Points) -> Sequence[Sequence[int]]:
    groups = list(itertools.combinations(range(len(points)), 3))
    areas = [_compute_area(*(points[index] for index in group)) for group in groups]
    return [group for group, area in zip(groups, areas, strict=True) if area <= min(areas) * _NEAR]


def _compute_area(first: Sequence[float], second: Sequence[float], third: Sequence[float]) -> float:
    return abs((second[0] - first[0]) * (third[1] - first[1]) - (second[1] - first[1]) * (third[0] - first[0]))


def _find_pairs(points: Points) -> Sequence[Sequence[int]]:
    """Returns the pairs with the smallest distance."""
    groups = list(itertools.combinations(range(len(points)), 2))
    distances = [math.dist(points[one], points[two]) for one, two in groups]
    return [group for group, distance in zip(groups, distances, strict=True) if distance <= min(distances) * _NEAR]
