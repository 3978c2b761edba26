"""Shadow runs: verdicts, guardrails, samplers, no writes."""

import json
import random
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from atoll import errors
from atoll.candidate import Candidate
from atoll.governed import MemoryParameters
from atoll.governed.errors import ParameterNotFound
from atoll.governed.rollout import evaluators, shadow_result, shadow_runner


class ReadOnly:
    """Store that can only be read."""

    def get(self, key):
        if key != "rate":
            raise ParameterNotFound(key)
        return 1.0, 1

    def __getattr__(self, name):
        raise AssertionError(f"a shadow run used {name}")


def make_samples(count, seed=0):
    rng = random.Random(seed)
    return [Candidate(f"s{n}", json.dumps({"x": rng.gauss(0, 1)})) for n in range(count)]


def apply_value(candidate, value):
    return Candidate(candidate.id, json.dumps({**json.loads(candidate.content), "value": value}))


def make_noisy_evaluator(gain=1.0, spread=1.0):
    """Scores a value by its size, with noise that depends on sample and value."""

    def score(candidate):
        data = json.loads(candidate.content)
        noise = random.Random(f"{candidate.id}/{data['value']}").gauss(0, spread)
        fitness = data["x"] + gain * data["value"] + noise
        return fitness, {"cost": 2 * data["value"] + noise, "fixed": 3.0}

    return evaluators.FuncEvaluator(score)


def make_runner(evaluator=None, sampler=None, **options):
    return shadow_runner.ShadowRunner(
        ReadOnly(),
        evaluator or make_noisy_evaluator(),
        sampler or shadow_result.FixedSampler(make_samples(400)),
        apply_value,
        **options,
    )


def test_better_value_is_promoted_without_writing():  # G67, G68
    result = make_runner().run_shadow("rate", 2.0)
    assert result.verdict == "promote"
    assert result.candidate_fitness > result.baseline_fitness
    assert result.baseline_breakdown["fixed"] == 3.0
    assert result.dimensions["fitness"].evidence.interval.low > 0


def test_worse_value_is_rejected():
    assert make_runner().run_shadow("rate", 0.0).verdict == "reject"


def test_equal_value_gives_no_verdict():
    result = make_runner().run_shadow("rate", 1.0)
    assert (result.verdict, result.sample_size, result.divergence, result.disagreement) == ("extend", 400, 0.0, 0.0)


def test_gain_below_min_effect_is_rejected():
    assert make_runner(min_effect=3.0).run_shadow("rate", 2.0).verdict == "reject"


def test_early_verdict_saves_calls():  # spec 4.2, 9
    result = make_runner().run_shadow("rate", 2.0)
    assert result.num_calls == 2 * result.sample_size < 800
    assert result.num_calls + result.num_saved == 800
    full = make_runner(stop_early=False).run_shadow("rate", 2.0)
    assert (full.num_calls, full.num_saved, full.verdict) == (800, 0, "promote")


def test_breached_guardrail_rejects_despite_fitness():  # spec 4.2, 7
    guard = shadow_result.Guardrail("cost", 0.5, lower_is_better=True)
    result = make_runner(guardrails=[guard]).run_shadow("rate", 2.0)
    assert (result.verdict, "cost" in result.reason) == ("reject", True)


def test_promotion_needs_satisfied_guardrails():
    wide = shadow_result.Guardrail("cost", 5.0, lower_is_better=True)
    assert make_runner(guardrails=[wide, shadow_result.Guardrail("fixed")]).run_shadow("rate", 2.0).verdict == "promote"
    unknown = make_runner(guardrails=[shadow_result.Guardrail("speed")]).run_shadow("rate", 2.0)
    assert (unknown.verdict, unknown.sample_size) == ("extend", 400)
    assert "was never measured" in unknown.reason


def test_value_with_failing_samples_is_rejected():
    def score(candidate):
        data = json.loads(candidate.content)
        return 1 / (0 if data["value"] > 1 and data["x"] > 0 else 1)

    result = make_runner(evaluators.FuncEvaluator(score)).run_shadow("rate", 2.0)
    assert result.verdict == "reject"
    assert result.num_failed["candidate"] > 0 == result.num_failed["baseline"]
    assert result.disagreement > 0.2


@pytest.mark.parametrize("traffic", [-0.1, 1.1, float("nan")])
def test_traffic_outside_0_to_1_is_rejected(traffic):  # G67
    with pytest.raises(errors.SetupError, match="traffic"):
        make_runner().run_shadow("rate", 2.0, traffic)


def test_shadow_runner_needs_all_parts():  # G67
    parts: list[Any] = [ReadOnly(), make_noisy_evaluator(), shadow_result.FixedSampler([]), apply_value]
    for index, name in enumerate(("store", "evaluator", "sampler", "applier")):
        with pytest.raises(errors.SetupError, match=name):
            shadow_runner.ShadowRunner(*(parts[:index] + [None] + parts[index + 1 :]))  # noqa: RUF005


def test_unknown_parameter_is_not_found():
    with pytest.raises(ParameterNotFound):
        make_runner().run_shadow("nothing", 2.0)


def test_empty_sample_gives_extend():  # G69
    result = make_runner(sampler=lambda traffic: []).run_shadow("rate", 2.0, 0.0)
    assert (result.sample_size, result.divergence, result.verdict) == (0, 0.0, "extend")


def test_sampler_gets_share_and_keeps_earlier_samples():  # G69
    prompts: list[float] = []

    def sampler(traffic):
        prompts.append(traffic)
        return []

    make_runner(sampler=sampler).run_shadow("rate", 2.0, 0.3)
    assert prompts == [0.3]
    fixed = shadow_result.FixedSampler(make_samples(300))
    shares = [{item.id for item in fixed(share)} for share in (0.0, 0.1, 0.5, 1.0)]
    assert shares[0] <= shares[1] <= shares[2] <= shares[3]
    assert (len(shares[0]), len(shares[3])) == (0, 300)
    assert 15 < len(shares[1]) < 50


def test_sample_iterator_is_read_only_as_far_as_needed():
    endless = (sample for seed in range(10**9) for sample in make_samples(50, seed))
    assert make_runner(sampler=lambda traffic: endless).run_shadow("rate", 2.0).verdict == "promote"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [(1000, 1001, 0.000999), (0.1, 0.5, 0.8), (0, 0, 0), (-1, 1, 1), (1e-12, 2e-12, 1e-3), (5, 5, 0)],
)
def test_divergence_of_two_means(one, other, expected):  # G71
    assert shadow_result.compute_divergence(one, other) == pytest.approx(expected, rel=1e-3)


@hypothesis.given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_divergence_is_symmetric_and_between_0_and_1(one, other):  # G71
    assert 0 <= shadow_result.compute_divergence(one, other) == shadow_result.compute_divergence(other, one) <= 1


def test_dimensions_have_intervals_and_adjusted_p_values():  # spec 4.2, 7
    result = make_runner(stop_early=False).run_shadow("rate", 2.0).dimensions["cost"]
    assert result.count == 400
    assert result.t_interval.low > result.evidence.interval.low
    assert result.bootstrap_interval == pytest.approx(result.t_interval, abs=0.05)
    assert result.adjusted_p >= result.evidence.p_value
    assert result.is_found


def test_repeats_measure_noise_of_evaluator():  # spec 4.2, 9
    rng = random.Random(0)
    shaky = evaluators.FuncEvaluator(lambda candidate: rng.gauss(0, 2))
    assert make_runner(shaky, repeats=300).run_shadow("rate", 2.0).noise == pytest.approx(4, rel=0.3)
    assert make_runner(repeats=10).run_shadow("rate", 2.0).noise == 0
    assert make_runner().run_shadow("rate", 2.0).noise is None


def test_parallel_scoring_gives_same_result():  # spec 4.2, 9
    def score(candidate):
        return json.loads(candidate.content)["value"]

    safe = evaluators.FuncEvaluator(score, is_concurrency_safe=True)
    one, many = (make_runner(safe, workers=n, stop_early=False).run_shadow("rate", 2.0) for n in (1, 4))
    assert one == many


def test_sample_ratio_mismatch_prevents_promotion():  # spec 4.2, 9
    class Biased(shadow_result.FixedSampler):
        def __call__(self, traffic):
            return super().__call__(1.0)[:300]

    result = make_runner(sampler=Biased(make_samples(400))).run_shadow("rate", 2.0, 0.1)
    assert result.ratio.is_off
    assert result.verdict == "extend"
    assert (
        not make_runner(sampler=shadow_result.FixedSampler(make_samples(4000)))
        .run_shadow("rate", 2.0, 0.1)
        .ratio.is_off
    )


def test_result_is_json_data():
    data = make_runner(sampler=lambda traffic: make_samples(5)).run_shadow("rate", 2.0, meta={"who": "test"}).to_data()
    assert json.loads(json.dumps(data, allow_nan=False))["meta"] == {"who": "test"}


def test_shadow_run_reads_sqlite_store():
    store = MemoryParameters()
    store.set("rate", 1.0, "start")
    runner = shadow_runner.ShadowRunner(
        store, make_noisy_evaluator(), shadow_result.FixedSampler(make_samples(200)), apply_value
    )
    assert runner.run_shadow("rate", 3.0).verdict == "promote"
    assert len(store.history("rate")) == 1


def test_score_that_always_raises_is_named():
    def score(candidate):
        raise KeyError("words")

    result = make_runner(evaluators.FuncEvaluator(score)).run_shadow("rate", 2.0)
    assert (result.verdict, result.reason) == ("extend", "no sample was scored by both arms: KeyError: 'words'")
    result = make_runner(evaluators.FuncEvaluator(lambda candidate: "good")).run_shadow("rate", 2.0)
    assert result.reason.startswith("no sample was scored by both arms: the score is 'good', not a finite number")
