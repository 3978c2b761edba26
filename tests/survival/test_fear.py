import random

import pytest

from atoll.survival import fear, forecast_metrics
from atoll.survival.fear import Forecaster
from tests.survival.episodes import build_observation, run_episodes


def make_features(path: float) -> tuple[float, ...]:
    return (1.0, path, *[0.0] * (len(fear.FEATURES) - 2))


def test_forecaster_learns_from_outcomes():
    rng, forecaster = random.Random(1), Forecaster(horizon=1)
    for tick in range(600):
        path = rng.random()
        forecaster.issue_forecast(tick, make_features(path))
        harm = {"lava": 0.3} if rng.random() < path**2 else {}
        forecaster.resolve(build_observation(tick=tick + 1, harm=harm))
    calibration = forecast_metrics.compute_calibration(forecaster.outcomes[300:])
    assert calibration.brier_skill > 0.2
    assert calibration.auroc > 0.75
    assert calibration.ece < 0.1


def test_underestimated_danger_is_corrected():  # B32
    forecaster = Forecaster(horizon=1)
    forecaster.weights[0] = -6.0
    before = forecaster.forecast(make_features(0.0))
    for tick in range(fear.WINDOW + 1):
        forecaster.issue_forecast(tick, make_features(0.0))
        forecaster.resolve(build_observation(tick=tick + 1, harm={"lava": 0.3} if tick % 2 else {}))
    assert forecaster.corrections >= 1
    assert forecaster.forecast(make_features(0.0)) > 5 * before


def test_forecast_resolves_by_damage_or_time():
    forecaster = Forecaster(horizon=5)
    forecaster.issue_forecast(0, make_features(0.1))
    forecaster.issue_forecast(3, make_features(0.2))
    forecaster.resolve(build_observation(tick=5))
    assert [outcome.happened for outcome in forecaster.outcomes] == [False]
    forecaster.resolve(build_observation(tick=6, harm={"gas": 0.1}))
    assert [outcome.happened for outcome in forecaster.outcomes] == [False, True]


def test_weights_are_restored_from_data():
    forecaster = Forecaster(5)
    forecaster.weights[1] = 9.0
    restored = Forecaster.from_data(forecaster.to_data(), 5)
    assert restored.weights == forecaster.weights


def test_forecasts_are_calibrated_after_some_episodes():
    summaries = run_episodes(6, seed=9)
    calibration = forecast_metrics.compute_calibration(
        [outcome for summary in summaries[2:] for outcome in summary.forecasts]
    )
    assert calibration.brier_skill > 0.2


class TestForecastMetrics:
    def test_perfect_and_useless_forecasts(self):
        perfect = forecast_metrics.compute_calibration([(1.0, True), (0.0, False)] * 10)
        assert (perfect.brier_skill, perfect.auroc, perfect.ece) == (1.0, 1.0, 0.0)
        useless = forecast_metrics.compute_calibration([(0.5, True), (0.5, False)] * 10)
        assert (useless.brier_skill, useless.auroc) == (0.0, 0.5)

    def test_empty_forecasts_have_no_skill(self):
        assert forecast_metrics.compute_calibration([]).brier_skill == 0.0

    def test_cvar_is_mean_of_worst_returns(self):
        assert forecast_metrics.compute_cvar(list(range(100)), 0.1) == pytest.approx(4.5)
        assert forecast_metrics.compute_cvar([]) == 0.0
