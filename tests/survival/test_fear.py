import random

import pytest

from atoll.survival import fear, forecast_metrics
from atoll.survival.fear import Forecaster
from tests.survival.lives import live, seen


def features(path: float) -> tuple[float, ...]:
    return (1.0, path, *[0.0] * (len(fear.FEATURES) - 2))


def test_forecasts_learn_what_hurts_and_what_does_not():
    rng, forecaster = random.Random(1), Forecaster(horizon=1)
    for tick in range(600):
        path = rng.random()
        forecaster.issue_forecast(tick, features(path))
        hurt = {"lava": 0.3} if rng.random() < path**2 else {}
        forecaster.resolve(seen(tick=tick + 1, harm=hurt))
    found = forecast_metrics.compute_calibration(forecaster.outcomes[300:])
    assert found.brier_skill > 0.2
    assert found.auroc > 0.75
    assert found.ece < 0.1


def test_danger_that_is_under_estimated_is_corrected_at_once():  # B32
    forecaster = Forecaster(horizon=1)
    forecaster.weights[0] = -6.0
    before = forecaster.forecast(features(0.0))
    for tick in range(fear.WINDOW + 1):
        forecaster.issue_forecast(tick, features(0.0))
        forecaster.resolve(seen(tick=tick + 1, harm={"lava": 0.3} if tick % 2 else {}))
    assert forecaster.corrections >= 1
    assert forecaster.forecast(features(0.0)) > 5 * before


def test_a_forecast_is_closed_by_damage_or_by_time():
    forecaster = Forecaster(horizon=5)
    forecaster.issue_forecast(0, features(0.1))
    forecaster.issue_forecast(3, features(0.2))
    forecaster.resolve(seen(tick=5))
    assert [said.happened for said in forecaster.outcomes] == [False]
    forecaster.resolve(seen(tick=6, harm={"gas": 0.1}))
    assert [said.happened for said in forecaster.outcomes] == [False, True]


def test_what_fear_has_learnt_survives_death():
    forecaster = Forecaster(5)
    forecaster.weights[1] = 9.0
    again = Forecaster.from_data(forecaster.to_data(), 5)
    assert again.weights == forecaster.weights


def test_an_agent_is_right_about_danger_after_some_lives():
    lives = live(6, seed=9)
    found = forecast_metrics.compute_calibration([said for life in lives[2:] for said in life.forecasts])
    assert found.brier_skill > 0.2


class TestMeasures:
    def test_perfect_and_worthless_forecasts(self):
        perfect = forecast_metrics.compute_calibration([(1.0, True), (0.0, False)] * 10)
        assert (perfect.brier_skill, perfect.auroc, perfect.ece) == (1.0, 1.0, 0.0)
        worthless = forecast_metrics.compute_calibration([(0.5, True), (0.5, False)] * 10)
        assert (worthless.brier_skill, worthless.auroc) == (0.0, 0.5)

    def test_no_forecasts_are_worth_nothing(self):
        assert forecast_metrics.compute_calibration([]).brier_skill == 0.0

    def test_the_tail_of_the_returns(self):
        assert forecast_metrics.compute_cvar(list(range(100)), 0.1) == pytest.approx(4.5)
        assert forecast_metrics.compute_cvar([]) == 0.0
