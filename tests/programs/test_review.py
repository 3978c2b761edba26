"""A model's opinion in the score, as OpenEvolve's `use_llm_feedback`: 0.7 and 0.3."""

import pytest

from atoll import errors, function, llm, store
from atoll.evaluation import Evaluation, failed
from atoll.programs.evaluation import llm_review
from atoll.programs.evaluation.cascade import ScoreFunction


def judged(found: Evaluation, reply: str | Exception, **measure):
    asked: list[str] = []

    def model(prompt: str) -> llm.Response:
        asked.append(prompt)
        if isinstance(reply, Exception):
            raise reply
        return llm.Response(reply, "m")

    judge = llm_review.LLMReviewedEvaluator(
        lambda skeleton: found, model, store.MemoryBlobs(), ScoreFunction(**measure), "python", "You review."
    )
    return judge(function.Text("x = 1")), asked


GOOD = Evaluation(0.5, (0.5,), {"combined_score": 0.5})


def test_three_tenths_of_the_score_are_the_models():
    found, asked = judged(GOOD, '```json\n{"readability": 1.0, "efficiency": 0.5, "reasoning": "clear"}\n```')
    assert found.score == pytest.approx(0.7 * 0.5 + 0.3 * 0.75)
    assert found.metrics["llm_readability"] == pytest.approx(0.1)
    assert found.metrics["llm_average"] == pytest.approx(0.075)
    assert "llm_reasoning: clear" in found.feedback
    assert found.artifacts["llm_reasoning"].head == "clear"
    assert found.scores == (found.score,)
    assert "You review." in asked[0]
    assert "x = 1" in asked[0]


def test_without_a_combined_score_its_numbers_count_as_metrics():
    found, _ = judged(Evaluation(0.5, (0.5,), {"speed": 0.5}), '{"readability": 1.0}')
    assert found.score == pytest.approx((0.5 + 0.1 + 0.1) / 3)


def test_what_failed_costs_no_call():
    found, asked = judged(failed("it raised"), "{}")
    assert (found.failure, asked) == ("it raised", [])


@pytest.mark.parametrize("reply", ["", "well done", "{}", "[1]", '{"a": "b"}', '{"a": NaN}', "{" * 5000])
def test_a_reply_without_numbers_leaves_no_score(reply):
    found, _ = judged(GOOD, reply)
    assert found.score is None
    assert str(found.failure).startswith("the LLM returned no ratings")


def test_a_model_that_is_silent_leaves_no_score():
    found, _ = judged(GOOD, llm.LLMError("busy"))
    assert found.failure == "the LLM did not rate it: busy"


@pytest.mark.parametrize(
    "outage",
    [
        llm.LLMError("busy", status=503, is_transient=True),
        llm.LLMError("gone", is_down=True),
        llm.LLMError("wrong key", status=401),
    ],
)
def test_a_model_that_is_out_of_reach_is_no_failure_of_the_program(outage):
    with pytest.raises(errors.SetupError, match=r"reviews programs is unavailable: .*Resume when"):
        judged(GOOD, outage)
