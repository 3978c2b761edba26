"""Statistics: error rates under repeated checks, and the cost in power."""

import math

import hypothesis
import numpy as np
import pytest
import scipy  # it imports `stats` when a test uses it
from hypothesis import strategies as st

from atoll import errors
from atoll.governed import statistics
from bench import governed_statistics as bench

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40)


@hypothesis.given(NUMBERS, NUMBERS)
def test_moments_match_numpy_after_merge(first, second):
    moments = statistics.Moments.from_values(first)
    moments.merge(statistics.Moments.from_values(second))
    both = np.array([*first, *second])
    assert moments.count == len(both)
    assert math.isclose(moments.mean, both.mean(), rel_tol=1e-9, abs_tol=1e-6)
    assert math.isclose(moments.variance, both.var(ddof=1), rel_tol=1e-6, abs_tol=1e-3)


def test_t_interval_matches_scipy():
    values = np.random.default_rng(0).normal(3, 2, 30)
    low, high = scipy.stats.t.interval(0.95, 29, values.mean(), scipy.stats.sem(values))
    assert statistics.t_interval(statistics.Moments.from_values(values)) == pytest.approx((low, high))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 11, 500, 501, 502, 100_000])
@pytest.mark.parametrize("alpha", [0.5, 0.05, 1e-4])
def test_t_interval_matches_scipy_for_any_count(count, alpha):
    moments = statistics.Moments(count, 0.0, float(count - 1))
    high = scipy.stats.t.isf(alpha / 2, count - 1) / math.sqrt(count)
    assert statistics.t_interval(moments, alpha).high == pytest.approx(high, rel=1e-9)


def test_normal_quantile_matches_scipy_and_is_infinite_at_bounds():
    probabilities = [1e-300, 0.025, 0.5, 0.8, 1 - 1e-15]
    assert [statistics.normal_quantile(p) for p in probabilities] == pytest.approx(scipy.stats.norm.ppf(probabilities))
    assert (statistics.normal_quantile(0.0), statistics.normal_quantile(1.0)) == (-math.inf, math.inf)


def test_bootstrap_interval_is_deterministic_and_close_to_t_interval():
    values = list(np.random.default_rng(0).normal(3, 2, 200))
    result = statistics.bootstrap_interval(values, seed=1)
    assert result == statistics.bootstrap_interval(values, seed=1)
    assert result == pytest.approx(statistics.t_interval(statistics.Moments.from_values(values)), abs=0.1)


def test_one_value_gives_infinite_interval():
    assert statistics.t_interval(statistics.Moments.from_values([1.0])) == (-math.inf, math.inf)
    assert statistics.bootstrap_interval([1.0]) == (-math.inf, math.inf)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, float("nan")])
def test_alpha_must_be_probability(alpha):
    with pytest.raises(errors.SetupError, match="alpha"):
        statistics.ConfidenceSequence(alpha=alpha)


def test_bench_formula_matches_confidence_sequence():
    values = np.random.default_rng(1).normal(0.1, 1, 300)
    sequence, p_values, e_values = statistics.ConfidenceSequence(), [], []
    for value in values:
        sequence.add(value)
        result = sequence.get_evidence()
        p_values.append(result.p_value)
        e_values.append(result.e_value if result.count >= sequence.min_count else 1.0)
    assert bench.log_e_values(values[None, :])[0, 19:] == pytest.approx(np.log(e_values[19:]))
    assert p_values == pytest.approx(np.minimum.accumulate(np.minimum(1, 1 / np.array(e_values))))
    assert sorted(p_values, reverse=True) == p_values


def test_interval_excludes_zero_iff_e_value_reaches_one_over_alpha():
    for effect in np.linspace(0, 0.6, 61):
        sequence = statistics.ConfidenceSequence(alpha=0.05)
        for value in np.random.default_rng(7).normal(effect, 1, 60):
            sequence.add(value)
        result = sequence.get_evidence()
        assert result.interval.excludes(0) == (result.e_value > 20)


@pytest.mark.parametrize("name", bench.STREAMS)
def test_sequence_has_few_false_alarms_under_peeking(name):  # spec 4.2, 8
    result = bench.false_alarms(name, num_streams=400, length=1000, seed=3)
    assert result.sequence <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 400)
    assert result.naive > 0.3


def test_sequence_stops_about_as_early_as_fixed_size_test():  # spec 4.2, 8
    result = bench.stopping(0.2, num_streams=300, seed=4)
    assert result.fixed == statistics.compute_sample_size(0.2) == 197
    assert result.median <= 1.1 * result.fixed


def test_constant_stream_is_evidence_but_not_certainty():
    sequence = statistics.ConfidenceSequence()
    for _ in range(30):
        sequence.add(0.5)
    result = sequence.get_evidence()
    assert result.interval.excludes(0)
    assert result.interval.low < 0.5 < result.interval.high
    assert 0 < result.p_value < 0.05


def test_equal_streams_give_no_evidence():
    sequence = statistics.ConfidenceSequence()
    for _ in range(30):
        sequence.add(0.0)
    assert sequence.get_evidence().p_value == 1.0


def test_unequal_independent_streams_rarely_alarm():
    alarms = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        baseline, candidate = statistics.Moments(), statistics.Moments()
        for _ in range(12):
            for value in rng.lognormal(size=190):
                baseline.add(value)
            for value in rng.lognormal(size=10):
                candidate.add(value)
            if statistics.compare_means(baseline, candidate).interval.excludes(0):
                alarms += 1
                break
    assert alarms <= 20


def test_different_streams_are_distinguished():
    rng = np.random.default_rng(0)
    result = statistics.compare_means(
        statistics.Moments.from_values(rng.normal(0, 1, 2000)), statistics.Moments.from_values(rng.normal(0.5, 1, 200))
    )
    assert result.interval.low > 0
    assert result.p_value < 0.01


def test_holm_adjusts_p_values():
    assert statistics.holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})
    assert statistics.holm({}) == {}


def test_e_bh_selects_largest_e_values():
    assert statistics.e_bh({"a": 70, "b": 35, "c": 1}, 0.05) == {"a", "b"}
    assert statistics.e_bh({"a": 59, "b": 20, "c": 1}, 0.05) == set()
    assert statistics.e_bh({}) == set()


def test_ratio_check_detects_only_broken_split():
    assert not statistics.check_ratio(9040, 960, 0.1).is_off
    assert statistics.check_ratio(9200, 800, 0.1).is_off
    with pytest.raises(errors.SetupError):
        statistics.check_ratio(1, 0, 0.0)
