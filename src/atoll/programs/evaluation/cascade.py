"""Stages of an evaluation, their thresholds, and the score of the metrics."""

import ast
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

SINGLE_STAGE = ("evaluate",)
COMBINED_METRIC = "combined_score"


def find_stages(source: str) -> Sequence[str]:
    """Returns the stage functions of an evaluator's source, in order, or `evaluate` alone."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError):
        return SINGLE_STAGE
    defined = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    stages: list[str] = []
    while (name := f"evaluate_stage{len(stages) + 1}") in defined:
        stages.append(name)
    return stages or SINGLE_STAGE


@dataclass(frozen=True, slots=True)
class ScoreFunction:
    """Computes the score from the metrics; higher is better.

    Attributes:
        metric: Metric that is the score; None: `combined_score`, or the mean of all metrics that are not features.
        minimize: Lower values of the metric are better.
        features: Metrics that describe a program but do not rate it.
    """

    metric: str | None = None
    minimize: bool = False
    features: Collection[str] = ()

    def score(self, metrics: Mapping[str, float]) -> float | None:
        """Returns the score, or None if it is missing."""
        value = self._get_value(metrics)
        return value if value is None or not self.minimize else -value

    def _get_value(self, metrics: Mapping[str, float]) -> float | None:
        if self.metric is not None:
            return metrics.get(self.metric)
        if COMBINED_METRIC in metrics:
            return metrics[COMBINED_METRIC]
        values = [value for name, value in metrics.items() if name not in self.features and not math.isnan(value)]
        return fmean(values) if values else None


def describe_missing_score(artifacts: Mapping[str, Any]) -> str:
    """Returns the failure of an evaluator without a number.

    Args:
        artifacts: Values of the evaluator other than numbers; those other than text are JSON.
    """
    value = next((artifacts[name] for name in (COMBINED_METRIC, "score") if name in artifacts), None)
    if value is None:
        return "the evaluator returned no number"
    return f"the evaluator returned {'None' if value == 'null' else repr(value)[:80]}, not a number"


def passes_threshold(metrics: Mapping[str, float], threshold: float) -> bool:
    """Returns whether a stage starts the next one: by `combined_score`, or the mean of all metrics but `error`."""
    values = [value for name, value in metrics.items() if name != "error" and math.isfinite(value)]
    if COMBINED_METRIC in metrics:
        return metrics[COMBINED_METRIC] >= threshold
    return bool(values) and fmean(values) >= threshold
