"""LLM review in the score, as in OpenEvolve's `use_llm_feedback`: weights 0.7 and 0.3."""

import pytest

from atoll import errors, function, llm, store
from atoll.evaluation import Evaluation, failed
from atoll.programs.evaluation import llm_review
from atoll.programs.evaluation.cascade import ScoreFunction


def review(result: Evaluation, response: str | Exception, **score_options):
    prompts: list[str] = []

    def model(prompt: str) -> llm.Response:
        prompts.append(prompt)
        if isinstance(response, Exception):
            raise response
        return llm.Response(response, "m")

    evaluator = llm_review.LLMReviewedEvaluator(
        lambda skeleton: result, model, store.MemoryBlobs(), ScoreFunction(**score_options), "python", "You review."
    )
    return evaluator(function.Text("x = 1")), prompts


GOOD = Evaluation(0.5, (0.5,), {"combined_score": 0.5})


def test_review_is_thirty_percent_of_the_score():
    result, prompts = review(GOOD, '```json\n{"readability": 1.0, "efficiency": 0.5, "reasoning": "clear"}\n```')
    assert result.score == pytest.approx(0.7 * 0.5 + 0.3 * 0.75)
    assert result.metrics["llm_readability"] == pytest.approx(0.1)
    assert result.metrics["llm_average"] == pytest.approx(0.075)
    assert "llm_reasoning: clear" in result.feedback
    assert result.artifacts["llm_reasoning"].head == "clear"
    assert result.scores == (result.score,)
    assert "You review." in prompts[0]
    assert "x = 1" in prompts[0]


def test_ratings_count_as_metrics_without_combined_score():
    result, _ = review(Evaluation(0.5, (0.5,), {"speed": 0.5}), '{"readability": 1.0}')
    assert result.score == pytest.approx((0.5 + 0.1 + 0.1) / 3)


def test_failed_program_is_not_reviewed():
    result, prompts = review(failed("it raised"), "{}")
    assert (result.failure, prompts) == ("it raised", [])


@pytest.mark.parametrize("response", ["", "well done", "{}", "[1]", '{"a": "b"}', '{"a": NaN}', "{" * 5000])
def test_response_without_numbers_gives_no_score(response):
    result, _ = review(GOOD, response)
    assert result.score is None
    assert str(result.failure).startswith("the LLM returned no ratings")


def test_llm_error_gives_no_score():
    result, _ = review(GOOD, llm.LLMError("busy"))
    assert result.failure == "the LLM did not rate it: busy"


@pytest.mark.parametrize(
    "outage",
    [
        llm.LLMError("busy", status=503, is_transient=True),
        llm.LLMError("gone", is_down=True),
        llm.LLMError("wrong key", status=401),
    ],
)
def test_unavailable_llm_raises_setup_error(outage):
    with pytest.raises(errors.SetupError, match=r"reviews programs is unavailable: .*Resume when"):
        review(GOOD, outage)
