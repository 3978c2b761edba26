"""LLM ratings as a part of the score: OpenEvolve's `use_llm_feedback`."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from atoll import errors, evaluation, function, llm, system
from atoll.evaluation import Evaluation
from atoll.programs.evaluation.cascade import COMBINED_METRIC, ScoreFunction
from atoll.programs.prompt import Templates

LLM_SCORE_SHARE = 0.3  # of the combined score, fixed as in OpenEvolve
_MAX_ATTEMPTS = 3  # each has its own retries in the LLM client
_PERMANENT_STATUSES = (401, 402, 403, 404)  # every further request would be refused too
# Possessive quantifiers avoid backtracking over empty lines if the closing fence is missing.
_FENCE = re.compile(r"```(?:json)?+[^\S\n]*+\n\s*+(.*?)```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LLMReviewedEvaluator:
    """Adds an LLM's ratings to an evaluation: numbers become metrics `llm_*`, texts become artifacts.

    A program without a rating has no score, since it would not be comparable with the others.

    Attributes:
        evaluator: Evaluates first; failed programs are not rated.
        model: Rates; responses are stored and never paid for twice.
        blobs: Stores artifacts.
        score_function: Computes the score.
        language: Language of the programs.
        role: Role of the LLM: the system message.
        weight: Factor of the ratings in the metrics.
        templates: The template `evaluation` is the user message.
    """

    evaluator: function.CandidateEvaluator
    model: llm.LLM
    blobs: system.BlobStore
    score_function: ScoreFunction
    language: str
    role: str
    weight: float = 0.1
    templates: Templates = field(default_factory=Templates.read)

    def __call__(self, skeleton: function.Skeleton[..., Any]) -> Evaluation:
        result = self.evaluator(skeleton)
        if result.score is None:
            return result
        values = {"language": self.language, "current_program": str(skeleton)}
        prompt = llm.ChatPrompt(("system", self.role), ("user", self.templates.fill("evaluation", values)))
        try:
            response = self._ask_llm(prompt)
        except llm.LLMError as error:  # for this program only, such as an empty response
            return evaluation.failed(f"the LLM did not rate it: {error}", feedback=result.feedback, cost=result.cost)
        review = parse_review(response.text)
        ratings = {name: value for name, value in review.items() if isinstance(value, float)}
        if not ratings:
            failure = f"the LLM returned no ratings: {' '.join(response.text.split())[:80]!r}"
            return evaluation.failed(failure, feedback=result.feedback, cost=result.cost)
        texts = {name: str(value) for name, value in review.items() if name not in ratings}
        return self._add_ratings(result, ratings, texts)

    def _ask_llm(self, prompt: str) -> llm.Response:
        """Calls the LLM, repeatedly if a later call may succeed: the program is not at fault.

        Raises:
            LLMError: This prompt has no response.
            SetupError: The LLM is unavailable; the program is evaluated when the run is resumed.
        """
        for attempts_left in reversed(range(_MAX_ATTEMPTS)):
            try:
                return self.model(prompt)
            except llm.LLMError as error:
                is_unavailable = error.is_transient or error.is_down or error.status in _PERMANENT_STATUSES
                if not is_unavailable:
                    raise
                if not attempts_left or not error.is_transient or error.is_down:
                    raise errors.SetupError(
                        f"The LLM that reviews programs is unavailable: {error} Resume when it is back; nothing "
                        "is lost."
                    ) from error
        raise AssertionError("the last attempt returns or raises")

    def _add_ratings(self, result: Evaluation, ratings: Mapping[str, float], texts: Mapping[str, str]) -> Evaluation:
        mean = fmean(ratings.values())
        metrics = {**result.metrics, **{f"llm_{name}": value * self.weight for name, value in ratings.items()}}
        metrics["llm_average"] = mean * self.weight
        if COMBINED_METRIC in metrics:
            metrics[COMBINED_METRIC] = (1 - LLM_SCORE_SHARE) * metrics[COMBINED_METRIC] + LLM_SCORE_SHARE * mean
        score = self.score_function.score(metrics)
        artifacts = {
            f"llm_{name}": self.blobs.save_blob(text.encode("utf-8", "replace")) for name, text in texts.items()
        }
        updated = replace(
            result,
            score=score,
            scores=(score,) if score is not None and result.scores == (result.score,) else result.scores,
            metrics=metrics,
            feedback="\n".join([result.feedback, *(f"llm_{name}: {text}" for name, text in texts.items())]).strip(),
            artifacts={**result.artifacts, **artifacts},
        )
        return evaluation.validate(updated)


def parse_review(text: str) -> Mapping[str, float | str]:
    """Parses the JSON object of a response: finite numbers stay numbers, other values become text."""
    match = _FENCE.search(text)
    body = match[1] if match else text[text.find("{") : text.rfind("}") + 1]
    try:
        review = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(review, dict):
        return {}
    return {str(name): _parse_rating(value) for name, value in review.items()}


def _parse_rating(value: object) -> float | str:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return value if isinstance(value, str) else json.dumps(value)
