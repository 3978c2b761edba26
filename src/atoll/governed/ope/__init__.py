"""Off-policy estimates: what another policy would have earned, from the log of the one that ran."""

from atoll.governed.ope.diagnostics import Diagnostics, diagnose
from atoll.governed.ope.estimators import LEAST_SAMPLE, METHODS, Estimate, TooFar, estimate
from atoll.governed.ope.logged import Collector, Logged
from atoll.governed.ope.model import Logistic, RewardModel, Ridge, cross_fit

__all__ = [
    "LEAST_SAMPLE",
    "METHODS",
    "Collector",
    "Diagnostics",
    "Estimate",
    "Logged",
    "Logistic",
    "RewardModel",
    "Ridge",
    "TooFar",
    "cross_fit",
    "diagnose",
    "estimate",
]
