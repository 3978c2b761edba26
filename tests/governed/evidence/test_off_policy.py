"""Off-policy estimates on a log with a known truth."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from atoll import errors
from atoll.governed.evidence import feedback, logs, off_policy
from atoll.governed.evidence.replayer import LogReplayer
from bench import governed_statistics as bench

START = datetime(2026, 4, 18, tzinfo=UTC)


@pytest.fixture(scope="module")
def quality():
    return bench.estimates(repeats=40, size=3000, seed=1)


def test_dr_and_snips_are_close_to_truth(quality):  # spec 4.4, 11
    _, result = quality
    for name in ("dr", "snips"):
        assert abs(result[name].bias) <= 0.01
    assert result["dr"].rmse < 0.02
    assert result["dr"].rmse < result["snips"].rmse * 1.1 < result["ips"].rmse * 1.1


def test_intervals_cover_the_truth(quality):  # spec 4.4, 11; the full form is in the bench
    _, result = quality
    assert result["dr"].coverage >= 0.85
    assert result["snips"].coverage >= 0.85


def test_naive_mean_is_wrong(quality):
    _, result = quality
    assert abs(result["naive"].bias) > 0.1
    assert result["naive"].coverage == 0


def make_uniform_log(size: int, *, propensity: float = 0.5) -> off_policy.LoggedData:
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, size)
    target = np.tile([0.2, 0.8], (size, 1))
    return off_policy.LoggedData(actions, actions.astype(float), np.full(size, propensity), target)


@pytest.mark.parametrize("method", ["ips", "clipped_ips", "snips", "dm", "dr"])
def test_estimators_work_without_features(method):
    assert off_policy.estimate(make_uniform_log(4000), method).value == pytest.approx(0.8, abs=0.05)


def test_reward_model_matches_reward_type():
    logged = bench.World(3).log(3000)
    logistic, linear = (
        off_policy.estimate(logged, "dr", model=model()) for model in (off_policy.Logistic, off_policy.Ridge)
    )
    assert off_policy.estimate(logged, "dr") == logistic
    assert logistic.interval.high - logistic.interval.low < linear.interval.high - linear.interval.low
    scaled = off_policy.LoggedData(
        logged.actions, 3 * logged.rewards, logged.propensities, logged.target, logged.features
    )
    assert off_policy.estimate(scaled, "dr") == off_policy.estimate(scaled, "dr", model=off_policy.Ridge())


@pytest.mark.parametrize("model", [off_policy.Logistic, off_policy.Ridge])
def test_ridge_strength_must_be_positive(model):
    with pytest.raises(errors.SetupError, match="strength"):
        model(0.0)


def test_diagnostics_measure_distance_of_policies():
    result = off_policy.estimate(make_uniform_log(1000)).diagnostics
    assert result.num_decisions == 1000
    assert result.max_weight == pytest.approx(1.6)
    assert result.overlap == pytest.approx(1, abs=0.05)
    assert 600 < result.effective_size < 1000


def test_estimate_rejects_insufficient_overlap():
    with pytest.raises(off_policy.InsufficientOverlap, match="at least 50"):
        off_policy.estimate(make_uniform_log(40))
    assert off_policy.estimate(make_uniform_log(40), "naive").value == pytest.approx(0.5, abs=0.2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"propensities": np.zeros(3)}, "propensity"),
        ({"rewards": np.array([0, np.nan, 1])}, "finite"),
        ({"target": np.full((3, 2), 0.4)}, "sum to 1"),
        ({"rewards": np.zeros(2)}, "equally many"),
    ],
)
def test_invalid_logged_data_is_rejected(change, message):
    columns = {
        "actions": np.array([0, 1, 1]),
        "rewards": np.zeros(3),
        "propensities": np.full(3, 0.5),
        "target": np.full((3, 2), 0.5),
    }
    with pytest.raises(errors.SetupError, match=message):
        off_policy.LoggedData(**{**columns, **change})


def test_unknown_estimator_is_rejected():
    with pytest.raises(errors.SetupError, match="clipped_ips"):
        off_policy.estimate(make_uniform_log(100), "magic")


def test_collector_gathers_data_from_replay():
    rng = np.random.default_rng(0)
    log, channel = logs.MemoryLog(), feedback.MemoryFeedback()
    for number in range(400):
        action, moment = ("slow", "fast")[rng.integers(0, 2)], START + timedelta(minutes=number)
        log.append(logs.LogEntry(moment, f"d{number}", f"e{number}", {"x": 1.0}, None, action, 0.5))
        channel.add(feedback.Feedback(moment, f"e{number}", "won", float(action == "fast")))
    log.append(logs.LogEntry(START, "old", "e0"))  # has no action
    collector = off_policy.LoggedDataCollector(
        "won", lambda entry: {"slow": 0.1, "fast": 0.9}, lambda entry: [entry.payload["x"]]
    )
    replayer = LogReplayer(log, channel)
    replayer.register(collector)
    replayer.replay(START, START + timedelta(days=1))
    assert collector.num_skipped == 1
    assert off_policy.estimate(collector.to_logged_data(), "dr").value == pytest.approx(0.9, abs=0.05)


def test_empty_collector_names_missing_fields():
    with pytest.raises(errors.SetupError, match="propensity"):
        off_policy.LoggedDataCollector("won", lambda entry: {"a": 1.0}).to_logged_data()
