"""Cheap evaluators first: what they find bad never reaches the dear ones."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from atoll import errors, evaluation
from atoll.candidate import Candidate
from atoll.governed.evaluators.evaluator import Evaluator, is_concurrency_safe

LEVEL_METRIC = "level"  # of the breakdown: how many evaluators a candidate passed


@dataclass(frozen=True, slots=True)
class CascadeStage:
    """An evaluator, and the least score that lets a candidate go on to the next."""

    evaluator: Evaluator
    threshold: float = -math.inf


class CascadeEvaluator:
    """Scores step by step. The score is that of the last step reached; metrics of all steps are together.

    Thresholds may be parameters: make the steps anew when they change.
    """

    def __init__(self, stages: Sequence[CascadeStage]) -> None:
        if not stages:
            raise errors.SetupError("A cascade needs a step at least.")
        self._stages = tuple(stages)
        self.is_concurrency_safe = all(is_concurrency_safe(stage.evaluator) for stage in stages)

    def score(self, candidate: Candidate) -> evaluation.Evaluation:
        metrics: dict[str, float] = {}
        total_cost = evaluation.ZERO_COST
        for level, stage in enumerate(self._stages, 1):
            result = stage.evaluator.score(candidate)
            metrics.update(result.metrics)
            total_cost += result.cost
            is_last = level == len(self._stages)
            if result.score is None or is_last or result.score < stage.threshold:
                has_passed = is_last and result.score is not None and result.score >= stage.threshold
                metrics[LEVEL_METRIC] = float(level if has_passed else level - 1)
                return replace(result, metrics=metrics, cost=total_cost)
        raise AssertionError("the last step returns")
