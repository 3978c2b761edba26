"""Choice between apart and together by the scores of the initial program."""

from random import Random

import pytest

from atoll.evaluation import Evaluation
from atoll.programs.evaluation import scoring


def make_trial(score):
    return scoring._Trial(Evaluation(score), (), ())


def compare(draw, draw_apart):
    return scoring._compare(
        make_trial(draw_apart()), make_trial(draw()), lambda: make_trial(draw()), lambda: make_trial(draw_apart())
    )


@pytest.mark.parametrize("seed", range(100))
def test_noisy_scores_agree(seed):
    rng = Random(seed)
    assert compare(lambda: rng.gauss(1.4, 0.02), lambda: rng.gauss(1.4, 0.02)) == ""


@pytest.mark.parametrize("seed", range(20))
def test_other_scores_are_not_taken_for_noise(seed):
    rng = Random(seed)
    assert "instead of" in compare(lambda: rng.gauss(1.4, 0.01), lambda: rng.gauss(1.8, 0.01))
    assert "instead of" in compare(lambda: 1.4, lambda: 1.4001)


@pytest.mark.parametrize("seed", range(20))
def test_score_that_contains_the_time_agrees(seed):
    """As signal_processing: a part of 1e-5 is the time of calls, which take longer apart."""
    rng = Random(seed)
    assert compare(lambda: rng.gauss(13.7283, 0.00003), lambda: rng.gauss(13.7280, 0.00003)) == ""
    assert "instead of" in compare(lambda: rng.gauss(13.72, 0.00003), lambda: rng.gauss(13.73, 0.00003))
