"""The evaluators of `bench/records.py` accept only valid constructions and measure them exactly."""

import math

import numpy as np
import pytest

from bench import records, records_pictures

SHAPES = {
    "circles": (26, 3),
    "heilbronn_triangle": (11, 2),
    "heilbronn_convex": (13, 2),
    "distances_2d": (16, 2),
    "distances_3d": (14, 3),
    "overlap": (20,),
}


def measure(name, construction):
    return records.load(records.TASKS / name / "evaluator.py").measure(construction)


def test_every_problem_has_a_folder():
    assert {path.name for path in records.TASKS.iterdir()} == set(SHAPES) == set(records.PROBLEMS)


@pytest.mark.parametrize("name", SHAPES)
def test_invalid_constructions_are_errors(name):
    shape = SHAPES[name]
    fills = [np.full(shape, value) for value in (math.nan, math.inf, -2.0)]
    for invalid in (None, "", "text", *fills):
        with pytest.raises((ValueError, TypeError)):
            measure(name, invalid)
    with pytest.raises((ValueError, TypeError)):
        measure(name, np.full((*shape, 2), 0.1))


def test_circles_that_overlap_by_rounding_are_an_error():
    grid = [[(column + 0.5) / 8, (row + 0.5) / 8, 1 / 16] for row in range(4) for column in range(8)][:26]
    assert measure("circles", grid) == 26 / 16
    grid[3][2] = math.nextafter(grid[3][2], 1)
    with pytest.raises(ValueError, match=r"circle 3 leaves|overlap"):
        measure("circles", grid)


def test_points_on_a_line_have_no_area():
    line = [(index / 20, index / 20) for index in range(11)]
    assert measure("heilbronn_triangle", line) == 0
    with pytest.raises(ValueError, match="line"):
        measure("heilbronn_convex", [(index, index) for index in range(13)])
    angles = [2 * math.pi * index / 13 for index in range(13)]
    regular = [(math.cos(angle), math.sin(angle)) for angle in angles]
    step = angles[1]
    smallest, whole = math.sin(step) - math.sin(2 * step) / 2, 13 * math.sin(step) / 2
    assert measure("heilbronn_convex", regular) == pytest.approx(smallest / whole)


def test_distances_of_a_grid():
    assert measure("distances_2d", [(x, y) for x in range(4) for y in range(4)]) == pytest.approx(1 / 18)
    cube = [(x, y, z) for x in range(2) for y in range(2) for z in range(2)]
    assert measure("distances_3d", [*cube, *[(2, y, z) for y in range(3) for z in range(2)]]) == pytest.approx(1 / 9)


def test_overlap_of_a_constant_is_one_half():
    assert measure("overlap", [0.3] * 20) == 0.5
    with pytest.raises(ValueError, match="above 1"):
        measure("overlap", [1.0] * 5 + [0.0] * 15)


def test_gap_is_negative_if_a_figure_is_better_than_published():
    assert (
        records.compute_gap(records.PROBLEMS["circles"], 2.7) < 0 < records.compute_gap(records.PROBLEMS["circles"], 2)
    )
    problem = records.PROBLEMS["overlap"]
    assert records.compute_gap(problem, problem.published * 1.01) == pytest.approx(1)


@pytest.mark.parametrize("name", SHAPES)
def test_pictures_are_svg(name):
    numbers = np.random.default_rng(0).random(SHAPES[name]) / 3
    picture = records_pictures.draw(name, numbers.tolist())
    assert picture.startswith("<svg")
    assert picture.endswith("</svg>\n")
