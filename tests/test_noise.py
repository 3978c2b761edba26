"""Repeated evaluation of noisy evaluators: which candidates are evaluated again, what counts, what is reported."""

import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import pytest

import atoll
from atoll import config, evaluation, function, journal, noise, runs, store
from atoll.evaluation import Evaluation
from atoll.evolve.result import Gain
from atoll.runs import markdown_report

EVALUATOR = """
import os, random
def evaluate(path):
    text = open(path).read()
    number = float(text.split("=")[1])
    noise = random.Random(os.urandom(8)).gauss(0, {sd})
    return {{"combined_score": min(number, 10) / 100 + noise}}
"""


def make_evaluator(scores: Sequence[float | None]) -> tuple[noise.RepeatedEvaluator, Callable[[], int]]:
    stream, count = iter(scores), itertools.count()

    def evaluate(skeleton: function.Skeleton[..., Any]) -> Evaluation:
        next(count)
        score = next(stream)
        return evaluation.failed("no") if score is None else Evaluation(score)

    return noise.RepeatedEvaluator(evaluate), lambda: int(repr(count)[6:-1])


@pytest.fixture
def allow() -> Iterator[Callable[[int], None]]:
    tokens = []

    def set_limit(limit: int) -> None:
        call_cache = journal.CallCache(1, 0, journal.NullJournal(), {}, max_evaluations=limit)
        tokens.append(journal.CallCache.current.set(call_cache))

    yield set_limit
    for token in tokens:
        journal.CallCache.current.reset(token)


def test_equal_scores_are_confirmed_once_and_not_counted():
    evaluator, calls = make_evaluator([1.0] * 100)
    result = evaluator(function.Text("x"))
    assert (result.score, result.repeats, calls()) == (1.0, 0, 2)
    assert not evaluator.is_noisy


def test_deterministic_candidates_are_soon_evaluated_once():
    evaluator, calls = make_evaluator([0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 7.0, 8.0])
    for _ in range(3):
        evaluator(function.Text("x"))
    assert calls() == 6
    evaluator(function.Text("x"))
    evaluator(function.Text("x"))
    assert calls() == 8


def test_candidates_that_mention_randomness_are_confirmed_in_any_case():
    evaluator, calls = make_evaluator([1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 9.0, 4.0, 5.0, 5.5, 5.2])
    for _ in range(3):
        evaluator(function.Text("x"))
    result = evaluator(function.Text("import random"))
    assert result.score == pytest.approx(5.74)
    assert (result.repeats, calls()) == (4, 11)
    assert result.metrics[noise.ERROR_METRIC] > 0


def test_lucky_evaluation_does_not_become_the_best():
    evaluator, calls = make_evaluator([1.0, 1.2, 0.8, 1.1, 0.9, 5.0, -6.0])
    assert evaluator(function.Text("x")).score == pytest.approx(1.0)
    result = evaluator(function.Text("y"))
    assert (result.score, result.repeats, calls()) == (-0.5, 1, 7)


def test_clear_improvement_stops_early():
    evaluator, calls = make_evaluator([1.0, 1.2, 0.8, 1.1, 0.9, 5.0, 5.1, 4.9])
    evaluator(function.Text("x"))
    assert evaluator(function.Text("y")).repeats == 2
    assert calls() == 8


def test_worse_candidates_are_evaluated_once():
    evaluator, calls = make_evaluator([1.0, 1.2, 0.8, 1.1, 0.9, 0.5])
    evaluator(function.Text("x"))
    assert evaluator(function.Text("y")).repeats == 0
    assert calls() == 6


def test_failed_repetition_is_a_failure():
    evaluator, _ = make_evaluator([1.0, None])
    assert evaluator(function.Text("x")).failure == "time 2: no"


def test_repetitions_stay_within_the_allowance(allow):
    evaluator, calls = make_evaluator([1.0, 1.2, 0.8, 1.1, 0.9, 5.0, 4.0, 6.0])
    evaluator(function.Text("x"))
    allow(2)
    assert evaluator(function.Text("y")).repeats == 1
    assert calls() == 7


def test_slow_evaluations_are_not_repeated():
    evaluator = noise.RepeatedEvaluator(lambda skeleton: Evaluation(1.0, cost=evaluation.Cost(seconds=500)))
    assert evaluator(function.Text("random")).cost.seconds == 500


@pytest.mark.parametrize(
    ("gain", "errors", "is_within"),
    [(0.1, (0.1, 0.1), True), (1.0, (0.1, 0.1), False), (0.001, (None, None), False), (0.0, (0.1, None), True)],
)
def test_gain_within_noise(gain, errors, is_within):
    assert noise.is_within_noise(gain, *errors) is is_within


def run_task(folder, sd: float, **run_section: Any) -> tuple[runs.Summary, store.Store, str]:
    folder.mkdir(exist_ok=True)
    (folder / "initial_program.py").write_text("x = 10\n")
    (folder / "evaluator.py").write_text(EVALUATOR.format(sd=sd))
    run_store = store.Store(str(folder / "atoll.db"))
    run_config = config.load(folder, [{"run": {"workers": 2, **run_section}}])
    with runs.Session(run_store, run_config) as session:
        session.run()
    return runs.summarize(run_store, session.run_id), run_store, session.run_id


@pytest.mark.process
def test_run_with_noise_reports_no_gain_and_keeps_its_budget(tmp_path):
    summary, run_store, run_id = run_task(tmp_path / "task", 0.5, budget="60evals")
    assert summary.totals.evaluations <= 60
    assert summary.is_noisy
    assert summary.initial_error is not None
    best = run_store.candidates(run_id).get(str(summary.best))
    assert best.id == "0.0" or noise.get_error(best.metrics), "a best was kept by one evaluation"
    report = "\n".join(markdown_report.iter_report_lines(run_store, run_id))
    if summary.is_gain_within_noise:
        assert "it is not a gain" in report or "No candidate is better" in report
    else:  # the best of many means can be a few standard errors above the first; five evaluations of sd 0.5 have 0.22
        assert (summary.best_score or 0.0) - (summary.initial_score or 0.0) < 5 * 0.5 / math.sqrt(5)
    assert "±" in report
    assert json.loads(json.dumps(summary.to_data()))["initial_error"] == summary.initial_error
    run_store.close()


@pytest.mark.process
def test_deterministic_run_counts_no_repetition(tmp_path):
    summary, run_store, run_id = run_task(tmp_path / "task", 0.0, iterations=10)
    evaluated = [row for row in run_store.candidates(run_id) if row.score is not None or row.failure]
    assert summary.totals.evaluations <= len(evaluated)
    assert not summary.is_noisy
    assert "±" not in "\n".join(markdown_report.iter_report_lines(run_store, run_id))
    run_store.close()


def make_noisy_score(deviation: float) -> Callable[[Any], float]:
    rng = Random(3)
    return lambda parameters: parameters["x"] + rng.gauss(0, deviation)


def test_evolve_repeats_noisy_evaluations_and_reports_no_gain_within_noise():
    result = atoll.evolve({"x": (0.5, 0.49, 0.51)}, make_noisy_score(1.0), budget="40evals", verbose=False)
    assert result.initial_error is not None
    assert "±" in str(result)
    assert result.cost.evaluator_calls <= 40
    gain = result.score - result.initial_score
    is_within = gain > 0 and noise.is_within_noise(gain, result.score_error, result.initial_error)
    assert result.is_gain_within_noise == is_within == ("it is not a gain" in str(result))
    within = result._replace(score=result.initial_score + 1e-6)
    assert within.is_gain_within_noise
    assert "it is not a gain" in str(within)
    assert "is_gain_within_noise=True" in repr(within)


def test_evolve_confirms_a_deterministic_score_once():
    result = atoll.evolve({"x": (0.5, 0.0, 1.0)}, make_noisy_score(0.0), budget="20evals", verbose=False)
    assert (result.score_error, result.initial_error, result.cost.evaluator_calls) == (None, None, 20)
    assert "±" not in str(result)


def test_gain_with_data_is_within_noise_if_its_interval_contains_zero():
    result = atoll.evolve({"x": (0.5, 0.0, 1.0)}, make_noisy_score(0.0), budget="10evals", verbose=False)
    assert result._replace(gain=Gain(0.1, -0.1, 0.3)).is_gain_within_noise
    assert not result._replace(gain=Gain(0.1, 0.05, 0.15)).is_gain_within_noise


TASK = """
import os
inputs = [1]
def rule(x):
    return x + 1
def evaluate(rule, case):
    return min(abs(rule(case)), 2) + {noise} * int.from_bytes(os.urandom(2)) / 65536
"""


@pytest.mark.process
@pytest.mark.parametrize(("scale", "repeats", "is_noisy"), [(1.0, "auto", True), (1.0, 1, False), (0.0, "auto", False)])
def test_functions_are_repeated_if_scores_vary(tmp_path, scale, repeats, is_noisy):
    (tmp_path / "task.py").write_text(TASK.format(noise=scale))
    (tmp_path / "atoll.toml").write_text('system = "llmsr"\n[task]\nfunction = "rule"\n')
    run_config = config.load(tmp_path, [{"task": {"repeats": repeats}, "run": {"budget": "30evals", "workers": 2}}])
    with store.Store(str(tmp_path / "atoll.db")) as run_store, runs.Session(run_store, run_config) as session:
        session.run()
        summary = runs.summarize(run_store, session.run_id)
    assert summary.is_noisy is is_noisy
    assert summary.totals.evaluations <= 30
