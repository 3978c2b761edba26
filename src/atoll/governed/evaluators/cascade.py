"""Cheap evaluators first: what they find bad never reaches the dear ones."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from atoll import errors, evaluation
from atoll.candidate import Candidate
from atoll.governed.evaluators.evaluator import Evaluator, is_concurrency_safe

LEVEL = "level"  # of the breakdown: how many evaluators a candidate passed


@dataclass(frozen=True, slots=True)
class Step:
    """An evaluator, and the least score that lets a candidate go on to the next."""

    evaluator: Evaluator
    threshold: float = -math.inf


class CascadeEvaluator:
    """Scores step by step. The score is that of the last step reached; metrics of all steps are together.

    Thresholds may be parameters: make the steps anew when they change.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        if not steps:
            raise errors.SetupError("A cascade needs a step at least.")
        self._steps = tuple(steps)
        self.is_concurrency_safe = all(is_concurrency_safe(step.evaluator) for step in steps)

    def score(self, candidate: Candidate) -> evaluation.Evaluation:
        metrics: dict[str, float] = {}
        spent = evaluation.FREE
        for level, step in enumerate(self._steps, 1):
            found = step.evaluator.score(candidate)
            metrics.update(found.metrics)
            spent += found.cost
            is_last = level == len(self._steps)
            if found.score is None or is_last or found.score < step.threshold:
                has_passed = is_last and found.score is not None and found.score >= step.threshold
                metrics[LEVEL] = float(level if has_passed else level - 1)
                return replace(found, metrics=metrics, cost=spent)
        raise AssertionError("the last step returns")
