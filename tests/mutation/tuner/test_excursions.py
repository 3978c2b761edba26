"""A search that stagnates looks for other hills and loses nothing at home."""

import math

import numpy
import pytest

from atoll.mutation.tuner import Space, Tunable, minimize
from atoll.mutation.tuner.search_regions import draw_latin_hypercube

SQUARE = [Tunable("x", 0.2, 0, 1), Tunable("y", 0.2, 0, 1)]


def hills(x: float, y: float) -> float:
    """Has a wide hill near the start and a higher, narrower one far from it."""
    wide = math.exp(-((x - 0.2) ** 2 + (y - 0.25) ** 2) / 0.02)
    high = 2 * math.exp(-((x - 0.8) ** 2 + (y - 0.75) ** 2) / 0.02)
    return -wide - high


@pytest.mark.parametrize("seed", range(3))
def test_a_second_hill_is_found_after_the_first_was_climbed(seed):
    found = minimize(hills, SQUARE, budget=90, seed=seed)
    assert found.score is not None
    assert found.score < -1.9


def test_a_hill_that_is_the_only_one_is_still_climbed_to_its_top():
    found = minimize(lambda x, y: (x - 0.31) ** 2 + (y - 0.62) ** 2, SQUARE, budget=60)
    assert found.score is not None
    assert found.score < 1e-6


def test_drawn_points_share_no_stratum():
    drawn = numpy.stack(draw_latin_hypercube(Space(SQUARE * 3), numpy.random.default_rng(0)))
    count = len(drawn)
    assert all(sorted(numpy.floor(column * count)) == list(range(count)) for column in drawn.T)
