"""`SandboxEvaluator` and `make_score_reader`."""

import functools
from statistics import fmean

import pytest

from atoll import function
from atoll.candidate import JSON
from atoll.evaluation import Cost, Evaluation, failed
from atoll.sandbox import ProcessSandbox, SandboxEvaluator, SandboxResult, ScoreJob, make_score_reader


class FixedSandbox:
    """Sandbox that always returns the same result."""

    level = "L0"

    def __init__(self, result: SandboxResult) -> None:
        self._result = result

    def run(self, request: JSON) -> SandboxResult:
        return self._result

    def close(self) -> None:
        pass


def evaluate(result, read=make_score_reader(fmean, partial=False)):  # noqa: B008
    return SandboxEvaluator(FixedSandbox(result), read)(function.Text("a text"))


GOOD: JSON = [{"score": 1.0}, {"score": 2.0}]
MIXED: JSON = [{"score": 1.0}, {"failure": "ValueError: no"}, {"score": 3.0}, {"score": None}]


def test_evaluator_reads_scores():
    assert evaluate(SandboxResult(GOOD, None, "", 0.5)) == Evaluation(1.5, (1.0, 2.0), cost=Cost(seconds=0.5))


def test_evaluator_keeps_failures():
    result = evaluate(SandboxResult(None, "it took longer than 3 s", "so far\n", 3.0))
    assert result == failed("it took longer than 3 s", feedback="so far", cost=Cost(seconds=3.0))


def test_evaluator_replaces_surrogates():
    read = evaluate(
        SandboxResult({"\ud800": "\udfff!"}, None, "", 0.1), lambda value: Evaluation(1.0, feedback=str(value))
    )
    assert read.feedback == "{'?': '?!'}"
    assert evaluate(SandboxResult(None, "it raised ValueError: \ud800", "", 0.1)).failure == "it raised ValueError: ?"


def test_feedback_has_the_end_of_the_output():
    result = evaluate(SandboxResult(GOOD, None, "x" * 10_000 + "the end\n", 0.1))
    assert result.feedback.endswith("xthe end")
    assert len(result.feedback) <= 2000


def test_feedback_of_the_reader_comes_before_the_output():
    result = evaluate(SandboxResult(7, None, "printed", 0.1), lambda value: Evaluation(float(value), feedback="read"))
    assert result.feedback == "read\nprinted"


@pytest.mark.parametrize("value", [None, 7, "text", [1, 2], [{"other": 1}], {"score": 1}])
def test_unreadable_result_fails(value):
    assert (evaluate(SandboxResult(value, None, "", 0.1)).failure or "").startswith(
        "its result cannot be read: TypeError"
    )


def test_evaluation_of_the_reader_is_validated():
    result = evaluate(SandboxResult(7, None, "", 0.1), lambda _: Evaluation(float("nan")))
    assert result.score is None
    assert result.failure == "the score is nan, not a finite number"


def test_one_failed_input_fails_the_evaluation():
    assert make_score_reader(fmean, partial=False)(MIXED) == failed("input 1: ValueError: no")


def test_partial_reader_ignores_failed_inputs():
    result = make_score_reader(max, partial=True)(MIXED)
    assert (result.score, result.scores, result.failure) == (3.0, (1.0, 3.0), None)
    assert result.feedback.splitlines()[0] == "input 1: ValueError: no"


def test_partial_reader_fails_without_any_score():
    result = make_score_reader(fmean, partial=True)([{"failure": "ValueError: no"}, {"score": "a text"}])
    assert result == failed("input 0: ValueError: no")
    assert make_score_reader(fmean, partial=True)([]) == failed("no input was scored")


def test_reduce_that_raises_fails():
    result = evaluate(SandboxResult(GOOD, None, "", 0.1), make_score_reader(lambda scores: scores[5], partial=True))
    assert result.failure == "its result cannot be read: IndexError: tuple index out of range"


def test_evaluator_scores_in_a_worker():
    def distance(skeleton, value):
        return -abs(skeleton(value) - 2 * value)

    with ProcessSandbox(functools.partial(ScoreJob, distance, [1, 2, 3])) as workers:
        evaluator = SandboxEvaluator(workers, make_score_reader(fmean, partial=False))
        assert evaluator(function.PyAstSkeleton("def f(x): return x + 1")).scores == (0.0, -1.0, -2.0)
        result = evaluator(function.PyAstSkeleton("def f(x): return [][x]"))
    assert result.failure == "input 0: IndexError: list index out of range (line 1 of the function)"
    assert "return [][x]" in result.feedback
