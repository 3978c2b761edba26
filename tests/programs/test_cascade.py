"""Stages and scores, as in OpenEvolve (P5, P6)."""

import math

import pytest

from atoll.programs.evaluation import cascade, evaluator_job


@pytest.mark.parametrize(
    ("source", "stages"),
    [
        ("def evaluate(path): ...", ["evaluate"]),
        ("def evaluate(path): ...\ndef evaluate_stage1(path): ...", ["evaluate_stage1"]),
        (
            "def evaluate_stage2(p): ...\nasync def evaluate_stage1(p): ...\ndef evaluate_stage4(p): ...",
            ["evaluate_stage1", "evaluate_stage2"],
        ),
        ("not python", ["evaluate"]),
        ("", ["evaluate"]),
    ],
)
def test_stages_are_read_from_the_source(source, stages):
    assert list(cascade.find_stages(source)) == stages


@pytest.mark.parametrize(
    ("metrics", "score"),
    [
        ({"combined_score": 0.3, "other": 9.0}, 0.3),
        ({"a": 1.0, "b": 3.0}, 2.0),
        ({"a": 1.0, "b": math.nan}, 1.0),
        ({"a": 1.0, "size": 100.0}, 1.0),
        ({"size": 100.0}, None),
        ({}, None),
    ],
)
def test_score_is_combined_score_or_mean_without_features(metrics, score):
    assert cascade.ScoreFunction(features=["size"]).score(metrics) == score


def test_one_metric_can_be_minimized():
    loss = cascade.ScoreFunction("loss", minimize=True)
    assert loss.score({"loss": 2.0, "combined_score": 1.0}) == -2.0
    assert loss.score({"combined_score": 1.0}) is None


@pytest.mark.parametrize(
    ("metrics", "passed"),
    [
        ({"combined_score": 0.5}, True),
        ({"combined_score": 0.49, "a": 1.0}, False),
        ({"a": 1.0, "b": 0.0}, True),
        ({"a": 0.6, "error": 0.0}, True),
        ({"a": math.nan}, False),
        ({}, False),
    ],
)
def test_stage_passes_by_its_threshold(metrics, passed):
    assert cascade.passes_threshold(metrics, 0.5) is passed


@pytest.mark.parametrize(
    ("returned", "failure"),
    [
        ("good", "the evaluator returned 'good', not a number"),
        (None, "the evaluator returned None, not a number"),
        ({"score": "high"}, "the evaluator returned 'high', not a number"),
        ({"note": "high"}, "the evaluator returned no number"),
    ],
)
def test_failure_names_what_the_evaluator_returned(returned, failure):
    assert cascade.describe_missing_score(evaluator_job.to_plain_result(returned)["artifacts"]) == failure
