"""Evaluators: functions, weighted sums, rules, cascades."""

import threading

import pytest

from atoll import errors, evaluation
from atoll.candidate import Candidate
from atoll.governed import MemoryParameters
from atoll.governed.errors import Cancelled
from atoll.governed.rollout import evaluators

FOUR = Candidate("0.0", "4")


def number(candidate: Candidate) -> float:
    return float(candidate.content)


def test_func_evaluator_accepts_number_and_breakdown():  # G59, G60
    assert evaluators.FuncEvaluator(number).score(FOUR) == evaluation.Evaluation(4.0)
    result = evaluators.FuncEvaluator(lambda candidate: (1, {"speed": 2.0})).score(FOUR)
    assert (result.score, dict(result.metrics)) == (1.0, {"speed": 2.0})
    assert evaluators.FuncEvaluator(lambda candidate: (1, None)).score(FOUR).score == 1.0


def test_exception_of_function_becomes_failure():  # G60
    result = evaluators.FuncEvaluator(number).score(Candidate("0.1", "many"))
    assert result.score is None
    assert "ValueError" in str(result.failure)


def test_func_evaluator_needs_function_and_checks_stop_first():  # G60
    with pytest.raises(errors.SetupError):
        evaluators.FuncEvaluator(None)  # type: ignore[arg-type]
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        evaluators.FuncEvaluator(lambda candidate: pytest.fail("it was called"), stop=stop).score(FOUR)


def make_weighted(**options):
    features = {"size": number, "half": lambda candidate: number(candidate) / 2}
    return evaluators.WeightedEvaluator(features, {"size": 2.0, "half": -1.0}, **options)


def test_weighted_score_is_sum_and_breakdown_is_unweighted():  # G61, G63
    result = make_weighted().score(FOUR)
    assert result.score == 6.0
    assert dict(result.metrics) == {"size": 4.0, "half": 2.0}


def test_clipping_keeps_raw_values_in_breakdown():  # G64
    result = make_weighted(clip=True).score(FOUR)
    assert result.score == 1.0
    assert dict(result.metrics) == {"size": 4.0, "half": 2.0, "clipped:size": 1.0, "clipped:half": 1.0}


def test_weighted_evaluator_reports_all_problems():  # G62
    features = [("a", number), ("a", number), ("b", number)]
    with pytest.raises(errors.SetupError) as caught:
        evaluators.WeightedEvaluator(features, {"a": 1.0, "c": float("nan")})
    for messages in ("feature a is given twice", "b has no weight", "c has no feature", "c is nan"):
        assert messages in str(caught.value)
    with pytest.raises(errors.SetupError, match="no feature"):
        evaluators.WeightedEvaluator({}, {})


def test_features_and_weights_are_copies():  # G65
    evaluator = make_weighted()
    assert evaluator.features() == ["half", "size"]
    dict(evaluator.weights())["size"] = 9.0
    assert evaluator.weights() == {"size": 2.0, "half": -1.0}


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_non_finite_feature_is_named(value):  # G65
    result = make_weighted().score(Candidate("0.0", value))
    assert result.score is None
    assert "feature size" in str(result.failure)


def test_weights_can_be_parameters():  # G66 beyond
    store = MemoryParameters()
    store.set("weights/size", 2, "start")
    evaluator = evaluators.WeightedEvaluator(
        {"size": number}, {"size": evaluators.ParameterWeight(store, "weights/size")}
    )
    assert evaluator.score(FOUR).score == 8.0
    store.set("weights/size", 0.5, "smaller is better")
    assert evaluator.score(FOUR).score == 2.0
    store.set("weights/size", "heavy", "a mistake")
    with pytest.raises(errors.SetupError, match="weights/size"):
        evaluator.score(FOUR)


def test_rules_run_first_and_all_violations_are_named():  # G66
    rules = [
        evaluators.Rule("small", lambda candidate: number(candidate) < 3),
        evaluators.Rule("short", lambda candidate: len(candidate.content) < 9),
        evaluators.Rule("odd", lambda candidate: int(candidate.content) % 2 / 0 == 1),
    ]
    result = evaluators.RuleEvaluator(rules, evaluators.FuncEvaluator(number)).score(FOUR)
    assert result.score is None
    assert str(result.failure).startswith("broken rules: small; odd (ZeroDivisionError")
    assert evaluators.RuleEvaluator(rules[1:2], evaluators.FuncEvaluator(number)).score(FOUR).score == 4.0
    assert evaluators.RuleEvaluator(rules[1:2]).score(FOUR).score == 1.0
    with pytest.raises(errors.SetupError):
        evaluators.RuleEvaluator([])


def test_cascade_skips_expensive_stages_for_bad_candidates():
    prompts: list[Candidate] = []

    def score_expensively(candidate):
        prompts.append(candidate)
        return 9.0, {"dear": 1.0}

    expensive = evaluators.FuncEvaluator(score_expensively)
    cheap = evaluators.FuncEvaluator(lambda candidate: (number(candidate), {"cheap": 1.0}))
    cascade = evaluators.CascadeEvaluator([evaluators.CascadeStage(cheap, 3.0), evaluators.CascadeStage(expensive)])
    assert dict(cascade.score(FOUR).metrics) == {"cheap": 1.0, "dear": 1.0, "level": 2.0}
    result = cascade.score(Candidate("0.1", "2"))
    assert (result.score, result.metrics["level"]) == (2.0, 0.0)
    assert len(prompts) == 1


def test_score_all_is_parallel_only_if_concurrency_safe():
    used = set()

    def note(candidate):
        used.add(threading.get_ident())
        threading.Event().wait(0.01)
        return number(candidate)

    candidates = [Candidate(f"0.{n}", str(n)) for n in range(8)]
    one = evaluators.score_all(evaluators.FuncEvaluator(note), candidates, workers=4)
    assert used == {threading.get_ident()}
    safe = evaluators.FuncEvaluator(note, is_concurrency_safe=True)
    assert evaluators.score_all(safe, candidates, workers=4) == one
    assert len(used) > 1
