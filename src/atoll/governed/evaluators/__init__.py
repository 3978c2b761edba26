"""Evaluators: how good a candidate is, and in what."""

from atoll.governed.evaluators.cascade import CascadeEvaluator, CascadeStage
from atoll.governed.evaluators.evaluator import ConcurrencySafe, Evaluator, is_concurrency_safe, score_all
from atoll.governed.evaluators.func import FuncEvaluator
from atoll.governed.evaluators.rule import Rule, RuleEvaluator
from atoll.governed.evaluators.weighted import ParameterWeight, WeightedEvaluator

__all__ = [
    "ParameterWeight",
    "CascadeEvaluator",
    "ConcurrencySafe",
    "Evaluator",
    "FuncEvaluator",
    "Rule",
    "RuleEvaluator",
    "CascadeStage",
    "WeightedEvaluator",
    "is_concurrency_safe",
    "score_all",
]
