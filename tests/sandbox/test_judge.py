"""How an answer becomes an evaluation."""

import functools
from statistics import fmean

import pytest

from atoll import function
from atoll.candidate import JSON
from atoll.evaluation import Cost, Evaluation, failed
from atoll.sandbox import ProcessSandbox, SandboxEvaluator, SandboxResult, ScoreJob, make_score_reader


class Canned:
    """A sandbox that always gives the same answer."""

    level = "L0"

    def __init__(self, answer: SandboxResult) -> None:
        self._answer = answer

    def run(self, request: JSON) -> SandboxResult:
        return self._answer

    def close(self) -> None:
        pass


def judged(answer, read=make_score_reader(fmean, partial=False)):  # noqa: B008
    return SandboxEvaluator(Canned(answer), read)(function.Text("a text"))


GOOD: JSON = [{"score": 1.0}, {"score": 2.0}]
MIXED: JSON = [{"score": 1.0}, {"failure": "ValueError: no"}, {"score": 3.0}, {"score": None}]


def test_a_good_answer_is_read():
    assert judged(SandboxResult(GOOD, None, "", 0.5)) == Evaluation(1.5, (1.0, 2.0), cost=Cost(seconds=0.5))


def test_a_failure_stays_one():
    found = judged(SandboxResult(None, "it took longer than 3 s", "so far\n", 3.0))
    assert found == failed("it took longer than 3 s", feedback="so far", cost=Cost(seconds=3.0))


def test_half_a_character_is_in_no_evaluation():
    read = judged(
        SandboxResult({"\ud800": "\udfff!"}, None, "", 0.1), lambda value: Evaluation(1.0, feedback=str(value))
    )
    assert read.feedback == "{'?': '?!'}"
    assert judged(SandboxResult(None, "it raised ValueError: \ud800", "", 0.1)).failure == "it raised ValueError: ?"


def test_the_end_of_what_was_printed_is_the_feedback():
    found = judged(SandboxResult(GOOD, None, "x" * 10_000 + "the end\n", 0.1))
    assert found.feedback.endswith("xthe end")
    assert len(found.feedback) <= 2000


def test_feedback_of_the_reader_comes_before_what_was_printed():
    found = judged(SandboxResult(7, None, "printed", 0.1), lambda value: Evaluation(float(value), feedback="read"))
    assert found.feedback == "read\nprinted"


@pytest.mark.parametrize("value", [None, 7, "text", [1, 2], [{"other": 1}], {"score": 1}])
def test_what_cannot_be_read_is_a_failure(value):
    assert (judged(SandboxResult(value, None, "", 0.1)).failure or "").startswith(
        "what it returned cannot be read: TypeError"
    )


def test_what_a_reader_returns_is_cleaned():
    found = judged(SandboxResult(7, None, "", 0.1), lambda _: Evaluation(float("nan")))
    assert found.score is None
    assert found.failure == "the score is nan, which is no finite number"


def test_one_failed_input_fails_the_whole():
    assert make_score_reader(fmean, partial=False)(MIXED) == failed("input 1: ValueError: no")


def test_failed_inputs_may_be_left_out():
    found = make_score_reader(max, partial=True)(MIXED)
    assert (found.score, found.scores, found.failure) == (3.0, (1.0, 3.0), None)
    assert found.feedback.splitlines()[0] == "input 1: ValueError: no"


def test_if_all_inputs_failed_so_did_the_candidate():
    found = make_score_reader(fmean, partial=True)([{"failure": "ValueError: no"}, {"score": "a text"}])
    assert found == failed("input 0: ValueError: no")
    assert make_score_reader(fmean, partial=True)([]) == failed("no input was scored")


def test_a_reduction_that_raises_is_a_failure():
    found = judged(SandboxResult(GOOD, None, "", 0.1), make_score_reader(lambda scores: scores[5], partial=True))
    assert found.failure == "what it returned cannot be read: IndexError: tuple index out of range"


def test_a_judge_scores_in_a_real_worker():
    def distance(skeleton, value):
        return -abs(skeleton(value) - 2 * value)

    with ProcessSandbox(functools.partial(ScoreJob, distance, [1, 2, 3])) as workers:
        judge = SandboxEvaluator(workers, make_score_reader(fmean, partial=False))
        assert judge(function.PyAstSkeleton("def f(x): return x + 1")).scores == (0.0, -1.0, -2.0)
        found = judge(function.PyAstSkeleton("def f(x): return [][x]"))
    assert found.failure == "input 0: IndexError: list index out of range (line 1 of the function)"
    assert "return [][x]" in found.feedback
