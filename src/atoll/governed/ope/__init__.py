"""Off-policy estimates: what another policy would have earned, from the log of the one that ran."""

from atoll.governed.ope.diagnostics import Diagnostics, diagnose
from atoll.governed.ope.estimators import MIN_EFFECTIVE_SIZE, METHODS, Estimate, InsufficientOverlap, estimate
from atoll.governed.ope.logged import LoggedDataCollector, LoggedData
from atoll.governed.ope.model import Logistic, RewardModel, Ridge, cross_fit

__all__ = [
    "MIN_EFFECTIVE_SIZE",
    "METHODS",
    "LoggedDataCollector",
    "Diagnostics",
    "Estimate",
    "LoggedData",
    "Logistic",
    "RewardModel",
    "Ridge",
    "InsufficientOverlap",
    "cross_fit",
    "diagnose",
    "estimate",
]
