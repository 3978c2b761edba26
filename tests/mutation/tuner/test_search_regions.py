"""Search regions: excursions to other hills."""

import math

import numpy
import pytest

from atoll.mutation.tuner import Space, Tunable, minimize
from atoll.mutation.tuner.search_regions import draw_latin_hypercube

SQUARE = [Tunable("x", 0.2, 0, 1), Tunable("y", 0.2, 0, 1)]


def hills(x: float, y: float) -> float:
    """Function with a wide hill near the start and a higher, narrower hill far from it."""
    wide = math.exp(-((x - 0.2) ** 2 + (y - 0.25) ** 2) / 0.02)
    high = 2 * math.exp(-((x - 0.8) ** 2 + (y - 0.75) ** 2) / 0.02)
    return -wide - high


@pytest.mark.parametrize("seed", range(3))
def test_search_finds_second_hill(seed):
    result = minimize(hills, SQUARE, budget=90, seed=seed)
    assert result.score is not None
    assert result.score < -1.9


def test_search_climbs_single_hill():
    result = minimize(lambda x, y: (x - 0.31) ** 2 + (y - 0.62) ** 2, SQUARE, budget=60)
    assert result.score is not None
    assert result.score < 1e-6


def test_latin_hypercube_points_share_no_interval():
    drawn = numpy.stack(draw_latin_hypercube(Space(SQUARE * 3), numpy.random.default_rng(0)))
    count = len(drawn)
    assert all(sorted(numpy.floor(column * count)) == list(range(count)) for column in drawn.T)
