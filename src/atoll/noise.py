"""Noise of evaluators: repeated evaluation of the initial candidate and of new bests, and intervals of scores."""

import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from atoll import function, journal
from atoll.evaluation import ZERO_COST, Evaluation

ERROR_METRIC = "score_error"  # metric with the standard error of a mean score
MAX_EVALUATIONS = 5  # of one candidate
RESERVE = MAX_EVALUATIONS - 1  # evaluations that an iteration may need beyond its share, to confirm a new best
_INITIAL_SHARE = 4  # the initial candidate uses at most this fraction of the evaluation budget: one in four
_MAX_SECONDS = 120.0  # slower evaluations are not repeated unless the user asks for it
_MAX_CONFIRMATIONS = 3  # equal scores in a row; then only candidates that mention randomness or time are repeated
_CLEAR_ERRORS = 3.0  # standard errors above the score to beat: no further evaluation is needed
_GAIN_ERRORS = 2.3  # standard errors of a difference between two means of five: 95 %
_VARYING = re.compile(
    r"rand|shuffle|sample|seed|noise|perf_counter|monotonic|time|thread|process|multiprocess|urandom|uuid|secrets"
)


def average(evaluations: Sequence[Evaluation]) -> Evaluation:
    """Returns the mean of several evaluations with its standard error; if the last one failed, all fail."""
    last, cost = evaluations[-1], sum((result.cost for result in evaluations), ZERO_COST)
    if len(evaluations) == 1:
        return last
    if last.score is None:
        return replace(last, failure=f"time {len(evaluations)}: {last.failure}", cost=cost)
    scores = [result.score for result in evaluations if result.score is not None]
    names = [name for name in last.metrics if all(name in result.metrics for result in evaluations)]
    metrics = {name: statistics.fmean(result.metrics[name] for result in evaluations) for name in names}
    score_counts = {len(result.scores) for result in evaluations}
    per_input = zip(*(result.scores for result in evaluations), strict=True) if len(score_counts) == 1 else ()
    return replace(
        last,
        score=statistics.fmean(scores),
        scores=tuple(statistics.fmean(values) for values in per_input),
        metrics={**metrics, ERROR_METRIC: compute_error(scores)},
        cost=cost,
    )


def compute_error(scores: Sequence[float]) -> float:
    """Returns the standard error of the mean of at least two scores."""
    return statistics.stdev(scores) / math.sqrt(len(scores))


def is_within_noise(gain: float, *score_errors: float | None) -> bool:
    """Decides whether a difference of scores may be chance. Unknown errors count as zero."""
    total_error = math.hypot(*(error or 0.0 for error in score_errors))
    return total_error > 0 and gain <= _GAIN_ERRORS * total_error


def get_error(metrics: Mapping[str, float] | None) -> float | None:
    """Returns the standard error of a score; None if it was evaluated once or does not vary."""
    error = (metrics or {}).get(ERROR_METRIC)
    return error if isinstance(error, int | float) and error > 0 else None


@dataclass(slots=True)
class RepeatedEvaluator:
    """Evaluates the initial candidate and every candidate that would be the best again, and takes the mean.

    A second evaluation with the same score ends it and is not counted, so deterministic evaluators use no budget.
    Different scores lead to up to `MAX_EVALUATIONS` evaluations, all counted (`Evaluation.repeats`). They stop early
    when the mean is no longer the best, or clearly the best. So a lucky evaluation does not become the best.

    Attributes:
        evaluator: Evaluates a candidate once.
        score_to_beat: Best score of the run so far. The evolver updates it.
        is_noisy: Two evaluations of a candidate had different scores.
        reserve: Evaluations beyond the share of an iteration. The evolver keeps them free.
        is_strict: Counts every evaluation, and confirms only the initial candidate if its scores are equal.
        make_repeat: Returns the candidate for a further evaluation, for evaluators that remember their results.
    """

    evaluator: function.CandidateEvaluator
    score_to_beat: float = -math.inf
    is_noisy: bool = False
    reserve: int = 0
    is_strict: bool = False
    make_repeat: Callable[[function.Skeleton[..., Any], int], function.Skeleton[..., Any]] = lambda skeleton, _: (
        skeleton
    )
    _confirmations: int = 0

    def __call__(self, skeleton: function.Skeleton[..., Any]) -> Evaluation:
        results = [self.evaluator(skeleton)]
        while self._needs_another(str(skeleton), results):
            results.append(self.evaluator(self.make_repeat(skeleton, len(results))))
        result = self._combine(results)
        if result.score is not None:
            self.score_to_beat = max(self.score_to_beat, result.score)  # until the evolver knows better
        return result

    def _combine(self, results: Sequence[Evaluation]) -> Evaluation:
        if len(results) > 1 and len({result.score for result in results}) == 1:
            self._confirmations += 1
            cost, repeats = sum((result.cost for result in results), ZERO_COST), len(results) - 1
            return replace(results[0], cost=cost, repeats=repeats if self.is_strict else 0)
        self._confirmations = self._confirmations if len(results) == 1 else 0
        return replace(average(results), repeats=len(results) - 1)

    def observe(self, best: Evaluation) -> None:
        """Sets the score to beat from the best evaluation of the run. The evolver calls it, also during recovery."""
        self.score_to_beat = -math.inf if best.score is None else best.score
        self.is_noisy = self.is_noisy or get_error(best.metrics) is not None

    def _needs_another(self, content: str, results: Sequence[Evaluation]) -> bool:
        scores = [result.score for result in results if result.score is not None]
        call_cache = journal.CallCache.current.get()
        allowed: float = math.inf
        is_initial = self.score_to_beat == -math.inf
        if call_cache is not None and call_cache.max_evaluations is not None:
            share = call_cache.max_evaluations
            allowed = share // _INITIAL_SHARE if is_initial else share + self.reserve
        if len(scores) < len(results) or len(scores) >= min(MAX_EVALUATIONS, allowed):
            return False
        mean = statistics.fmean(scores)
        if mean <= self.score_to_beat:
            return False
        if len(scores) == 1:
            may_vary = self._confirmations < _MAX_CONFIRMATIONS or _VARYING.search(content) is not None
            may_vary = is_initial if self.is_strict else may_vary
            return (self.is_noisy or may_vary) and results[0].cost.seconds <= _MAX_SECONDS
        if scores[0] == scores[1]:
            return False
        self.is_noisy = True
        if is_initial or len(scores) == 2:
            return True
        return mean - _CLEAR_ERRORS * compute_error(scores) <= self.score_to_beat
