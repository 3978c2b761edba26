"""Estimates of a policy's value, each with an interval and its diagnostics.

naive        the mean reward of the log: what the LOGGING policy earned, shown to be wrong
ips          inverse propensity scores: no bias, large variance
clipped_ips  weights cut at the square root of the number of decisions (Ionides, 2008): some bias, less variance
snips        self-normalised: divides by the sum of the weights (Swaminathan and Joachims, 2015)
dm           direct method: the model of rewards alone, as wrong as the model
dr           doubly robust and cross-fitted: right if the model or the propensities are (Dudik et al., 2011)
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from atoll import errors
from atoll.governed.ope.diagnostics import Diagnostics, diagnose
from atoll.governed.ope.logged import LoggedData
from atoll.governed.ope.model import RewardModel, cross_fit, choose_reward_model
from atoll.governed.statistics import intervals

type Floats = NDArray[np.float64]

MIN_EFFECTIVE_SIZE = 50.0  # decisions of the target policy that the log must be worth


class InsufficientOverlap(errors.SetupError):
    """The target policy is too far from the log for any estimate."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a policy would earn per decision."""

    method: str
    value: float
    interval: intervals.Interval
    diagnostics: Diagnostics


def _naive(logged: LoggedData, model: RewardModel) -> Floats:
    return logged.rewards


def _ips(logged: LoggedData, model: RewardModel) -> Floats:
    return logged.weights * logged.rewards


def _clipped_ips(logged: LoggedData, model: RewardModel) -> Floats:
    return np.minimum(logged.weights, math.sqrt(len(logged.actions))) * logged.rewards


def _snips(logged: LoggedData, model: RewardModel) -> Floats:
    weights = logged.weights
    value = float((weights * logged.rewards).sum() / weights.sum())
    # The delta method: the ratio's own part of every row, so that their mean and spread are the ratio's.
    return value + weights * (logged.rewards - value) / float(weights.mean())


def _dm(logged: LoggedData, model: RewardModel) -> Floats:
    return np.asarray((logged.target * cross_fit(logged, model)).sum(1))


def _dr(logged: LoggedData, model: RewardModel) -> Floats:
    predicted = cross_fit(logged, model)
    predicted_taken = predicted[np.arange(len(predicted)), logged.actions]
    return np.asarray((logged.target * predicted).sum(1) + logged.weights * (logged.rewards - predicted_taken))


METHODS: Mapping[str, Callable[[LoggedData, RewardModel], Floats]] = {
    "naive": _naive,
    "ips": _ips,
    "clipped_ips": _clipped_ips,
    "snips": _snips,
    "dm": _dm,
    "dr": _dr,
}


def estimate(logged: LoggedData, method: str = "dr", *, model: RewardModel | None = None, alpha: float = 0.05) -> Estimate:
    """Estimates what the target policy would have earned per decision.

    Args:
        model: Of rewards; without it, one that fits them: logistic where all are 0 or 1, else linear.

    Raises:
        SetupError: There is no such method.
        TooFar: The log is worth fewer than 50 decisions of the target policy.
    """
    if method not in METHODS:
        raise errors.SetupError(f"There is no estimator {method!r}: choose one of {', '.join(METHODS)}.")
    intervals.check_alpha(alpha)
    diagnostics = diagnose(logged)
    if method != "naive" and diagnostics.effective_size < MIN_EFFECTIVE_SIZE:
        raise InsufficientOverlap(
            f"The log is worth {diagnostics.effective_size:.1f} decisions of the target policy, and fewer than "
            f"{MIN_EFFECTIVE_SIZE:.0f} say nothing: log more, or choose a policy nearer to the one that ran."
        )
    rows = METHODS[method](logged, model or choose_reward_model(logged))
    half_width = float(special.ndtri(1 - alpha / 2)) * float(rows.std(ddof=1)) / math.sqrt(len(rows))
    value = float(rows.mean())
    return Estimate(method, value, intervals.Interval(value - half_width, value + half_width), diagnostics)
