"""Reflectors: functions and aggregated statistics."""

import threading
from datetime import UTC, datetime, timedelta

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from atoll import errors
from atoll.governed.errors import Cancelled
from atoll.governed.evidence import feedback, logs, reflectors, replay_report

START = datetime(2026, 4, 18, tzinfo=UTC)


def event(value=None, metric="m", entity="e", hours=0.0, policy=None):
    moment = START + timedelta(hours=hours)
    log = logs.LogEntry(moment, "d", entity, policy_version=policy)
    result = None if value is None else feedback.Feedback(moment + timedelta(hours=1), entity, metric, value)
    return replay_report.ReplayEvent(log, result)


def feed(aggregator, *events):
    for replay_event in events:
        aggregator.on_event(replay_event)
    return aggregator


def test_func_reflector_needs_function_and_checks_stop():  # G55
    with pytest.raises(errors.SetupError):
        reflectors.FuncReflector(None)  # type: ignore[arg-type]
    stop = threading.Event()
    observed: list[replay_report.ReplayEvent] = []
    reflector = reflectors.FuncReflector(observed.append, stop=stop)
    reflector.on_event(event())
    stop.set()
    with pytest.raises(Cancelled):
        reflector.on_event(event())
    assert len(observed) == 1


def test_stats_of_two_values():  # G56, G58
    aggregator = feed(
        reflectors.AggregatorReflector(), *(event(value, hours=n) for n, value in enumerate((3.0, 1.0, 8.0)))
    )
    stats = aggregator.stats("e", "m")
    assert (stats.count, stats.sum, stats.mean, stats.min, stats.max) == (3, 12, 4, 1, 8)
    assert stats.variance == pytest.approx(13)
    assert stats.last_timestamp == START + timedelta(hours=3)


def test_unknown_stats_are_zero():  # G56
    assert reflectors.AggregatorReflector().stats("e", "m") == reflectors.Stats()


def test_pending_count_decreases_with_feedback_and_never_below_zero():  # G57
    aggregator = feed(reflectors.AggregatorReflector(), event(), event())
    assert aggregator.stats("e", "").pending_count == 2
    assert aggregator.stats("e", "").count == 0
    feed(aggregator, event(1.0), event(1.0), event(1.0))
    assert aggregator.stats("e", "").pending_count == 0
    assert aggregator.stats("e", "m").pending_count == 0


def test_feedback_before_pending_decision_is_allowed():  # G57
    assert feed(reflectors.AggregatorReflector(), event(1.0)).stats("e", "").pending_count == 0


def test_entities_and_metrics_are_sorted_without_pending():  # G58
    aggregator = feed(
        reflectors.AggregatorReflector(), event(1.0, "z", "b"), event(None, entity="a"), event(1.0, "y", "b")
    )
    assert aggregator.list_entities() == ["a", "b"]
    assert aggregator.metrics("b") == ["y", "z"]
    assert aggregator.metrics("a") == []
    aggregator.reset()
    assert aggregator.list_entities() == []


def test_stats_can_be_split_by_policy_version():  # G58 beyond
    aggregator = reflectors.AggregatorReflector(by_policy=True)
    feed(aggregator, event(1.0, policy="v1"), event(3.0, policy="v2"), event(5.0, policy="v2"))
    assert aggregator.stats("e", "m").mean == 3
    assert aggregator.stats("e", "m", policy_version="v2").mean == 4
    assert aggregator.policies("e", "m") == ["v1", "v2"]


@hypothesis.given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=200))
def test_stats_match_numpy_with_buffered_values(values):
    stats = feed(reflectors.AggregatorReflector(), *map(event, values)).stats("e", "m")
    assert stats.count == len(values)
    assert (stats.min, stats.max) == (min(values), max(values))
    assert stats.mean == pytest.approx(np.mean(values), rel=1e-9, abs=1e-3)
    expected = np.var(values, ddof=1) if len(values) > 1 else 0
    assert stats.variance == pytest.approx(expected, rel=1e-6, abs=1e-3)


@pytest.mark.parametrize("draw", ["normal", "lognormal", "exponential"])
def test_quantile_error_is_about_one_per_cent(draw):
    values = getattr(np.random.default_rng(0), draw)(size=5000)
    stats = feed(reflectors.AggregatorReflector(), *map(event, values.tolist())).stats("e", "m")
    for share, result in ((0.05, stats.p05), (0.5, stats.p50), (0.95, stats.p95)):
        near = np.quantile(values, [max(share - 0.002, 0), min(share + 0.002, 1)])
        assert near[0] - abs(near[0]) * 0.0101 <= result <= near[1] + abs(near[1]) * 0.0101


def test_sketch_stays_small_and_merges():
    one, other = reflectors.QuantileSketch(), reflectors.QuantileSketch()
    rng = np.random.default_rng(0)
    one.add(np.exp(rng.uniform(-20, 80, 20_000)))  # 5,000 buckets; the smallest share one
    other.add(-np.exp(rng.uniform(-20, 80, 20_000)))
    one.merge(other)
    assert sum(len(replay_event) for replay_event in one.to_data()[:2]) <= 2048
    assert np.log(one.quantile(0.99)) == pytest.approx(78, abs=0.5)
    assert np.log(-one.quantile(0.01)) == pytest.approx(78, abs=0.5)
    assert reflectors.QuantileSketch.from_data(one.to_data()).quantile(0.9) == one.quantile(0.9)


def test_drift_is_flagged_with_few_false_alarms():  # G58 beyond
    rng, flagged = np.random.default_rng(0), 0
    for _ in range(60):
        still = feed(reflectors.AggregatorReflector(), *map(event, rng.normal(size=1280).tolist()))
        flagged += still.stats("e", "m").is_drifting
    assert flagged <= 3
    moved = feed(reflectors.AggregatorReflector(), *map(event, [*rng.normal(size=640), *rng.normal(1, 1, 128)]))
    assert moved.stats("e", "m").is_drifting


def test_aggregator_is_thread_safe():  # G58
    aggregator = reflectors.AggregatorReflector()
    threads = [threading.Thread(target=feed, args=(aggregator, *[event(1.0)] * 500)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert aggregator.stats("e", "m").count == 2000
