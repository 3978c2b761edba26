"""Estimates of a policy's value, each with an interval and its diagnostics.

naive        the mean reward of the log: what the LOGGING policy earned, shown to be wrong
ips          inverse propensity scores: no bias, large variance
clipped_ips  weights cut at the square root of the number of decisions (Ionides, 2008): some bias, less variance
snips        self-normalised: divides by the sum of the weights (Swaminathan and Joachims, 2015)
dm           direct method: the model of rewards alone, as wrong as the model
dr           doubly robust and cross-fitted: right if the model or the propensities are (Dudik et al., 2011)
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from atoll import errors
from atoll.governed.evidence.logs import LogEntry
from atoll.governed.evidence.replay_report import ReplayEvent
from atoll.governed.statistics import intervals

type Floats = NDArray[np.float64]
type TargetPolicy = Callable[[LogEntry], Mapping[str, float]]
type Features = Callable[[LogEntry], Sequence[float]]


@dataclass(frozen=True, slots=True)
class LoggedData:
    """What was decided, what it earned, and what the target policy would do.

    Attributes:
        actions: Index of the action taken, per row.
        rewards: What it earned.
        propensities: With which probability the logging policy took it.
        target: Probability of every action under the target policy; a row per decision.
        features: What the decision was made on; None if nothing is known.

    Raises:
        SetupError: The columns do not fit each other, or hold what is no probability.
    """

    actions: NDArray[np.int64]
    rewards: Floats
    propensities: Floats
    target: Floats
    features: Floats | None = None

    def __post_init__(self) -> None:
        size = len(self.actions)
        if not size or {len(self.rewards), len(self.propensities), len(self.target)} != {size}:
            raise errors.SetupError("Logged decisions need as many rewards, propensities and target rows, and one.")
        if not np.isfinite(self.rewards).all():
            raise errors.SetupError("A logged reward is no finite number: leave its decision out.")
        if not ((self.propensities > 0) & (self.propensities <= 1)).all():
            raise errors.SetupError("A propensity is not in (0, 1]: log the probability of the action that was taken.")
        if self.target.min() < 0 or not np.allclose(self.target.sum(1), 1, atol=1e-6):
            raise errors.SetupError("A row of the target policy does not sum to 1: give a probability per action.")

    @property
    def weights(self) -> Floats:
        """How much likelier the target policy takes the logged action than the logging policy did."""
        target_propensities: Floats = self.target[np.arange(len(self.actions)), self.actions]
        return target_propensities / self.propensities


class LoggedDataCollector:
    """A reflector that gathers paired decisions for an estimate.

    Events without feedback, or whose entry lacks an action or a propensity, are counted in `num_left_out`.

    Args:
        metric: The metric that is the reward.
        target: Returns the probabilities of all actions under the target policy for a decision.
        features: Returns the numbers that the decision was made on.
    """

    def __init__(self, metric: str, target: TargetPolicy, features: Features | None = None) -> None:
        self._metric, self._target, self._features = metric, target, features
        self._rows: list[tuple[str, float, float, Mapping[str, float], Sequence[float]]] = []
        self.num_skipped = 0

    def on_event(self, event: ReplayEvent) -> None:
        entry, feedback = event.log, event.feedback
        if feedback is not None and feedback.metric != self._metric:
            return
        if feedback is None or entry.action is None or entry.propensity is None:
            self.num_skipped += 1
            return
        features = self._features(entry) if self._features else ()
        self._rows.append((entry.action, feedback.value, entry.propensity, self._target(entry), features))

    def to_logged_data(self) -> LoggedData:
        """Returns what was gathered.

        Raises:
            SetupError: There is nothing, or the target policy is none.
        """
        if not self._rows:
            raise errors.SetupError(
                f"No decision has an action, a propensity and a {self._metric}: log them, or name another metric."
            )
        names = sorted({name for row in self._rows for name in (row[0], *row[3])})
        indices = {name: index for index, name in enumerate(names)}
        target = np.zeros((len(self._rows), len(names)))
        for row_index, row in enumerate(self._rows):
            for name, probability in row[3].items():
                target[row_index, indices[name]] = probability
        columns: Any = list(zip(*self._rows, strict=True))
        features = np.array(columns[4], dtype=float) if self._features else None
        actions = np.array([indices[name] for name in columns[0]])
        return LoggedData(actions, np.array(columns[1], float), np.array(columns[2], float), target, features)


INTERCEPT_RIDGE = 1e-3  # keeps the constant finite where all rewards of an action are the same
MAX_NEWTON_STEPS, MIN_NEWTON_STEP = 12, 1e-6


class RewardModel(Protocol):
    """Predicts rewards. Called once per fold; keeps nothing between calls."""

    def predict(self, train: LoggedData, features: Floats, num_actions: int) -> Floats:
        """Returns the expected reward of every action (columns) for every row of features."""


class Ridge:
    """A linear model per action, shrunk towards the mean reward; without features, a shrunk mean per action."""

    def __init__(self, strength: float = 1.0) -> None:
        if strength <= 0:
            raise errors.SetupError(f"strength={strength}: a ridge needs one above 0, e.g. 1.")
        self._strength = strength

    def predict(self, train: LoggedData, features: Floats, num_actions: int) -> Floats:
        mean = float(train.rewards.mean())
        train_features = np.empty((len(train.actions), 0)) if train.features is None else train.features
        predicted = np.full((len(features), num_actions), mean)
        penalty = self._strength * np.eye(train_features.shape[1] + 1)
        for action in range(num_actions):
            rows = train.actions == action
            if rows.any():
                design = np.column_stack([np.ones(rows.sum()), train_features[rows]])
                right_side = design.T @ (train.rewards[rows] - mean)
                coefficients = np.linalg.solve(design.T @ design + penalty, right_side)
                predicted[:, action] += np.column_stack([np.ones(len(features)), features]) @ coefficients
        return predicted


class Logistic:
    """A logistic model per action, for rewards that are 0 or 1; without features, a share per action.

    Newton's steps with a ridge on all but the constant; on the log of the benchmark its intervals are a few per cent
    narrower than those of the linear model.
    """

    def __init__(self, strength: float = 1.0) -> None:
        if strength <= 0:
            raise errors.SetupError(f"strength={strength}: a ridge needs one above 0, e.g. 1.")
        self._strength = strength

    def predict(self, train: LoggedData, features: Floats, num_actions: int) -> Floats:
        train_features = np.empty((len(train.actions), 0)) if train.features is None else train.features
        predicted = np.full((len(features), num_actions), float(train.rewards.mean()))
        for action in range(num_actions):
            rows = train.actions == action
            if rows.any():
                weights = self._fit(_add_intercept(train_features[rows]), train.rewards[rows])
                predicted[:, action] = _sigmoid(_add_intercept(features) @ weights)
        return predicted

    def _fit(self, design: Floats, rewards: Floats) -> Floats:
        weights = np.zeros(design.shape[1])
        penalty = np.diag([INTERCEPT_RIDGE, *[self._strength] * (design.shape[1] - 1)])
        for _ in range(MAX_NEWTON_STEPS):
            probability = _sigmoid(design @ weights)
            gradient = design.T @ (rewards - probability) - penalty @ weights
            hessian = (design * (probability * (1 - probability))[:, None]).T @ design + penalty
            step = np.linalg.solve(hessian, gradient)
            weights = weights + step
            if np.abs(step).max() < MIN_NEWTON_STEP:
                break
        return weights


def _add_intercept(features: Floats) -> Floats:
    return np.column_stack([np.ones(len(features)), features])


def _sigmoid(values: Floats) -> Floats:
    return np.asarray(special.expit(values))


def choose_reward_model(logged: LoggedData) -> RewardModel:
    """Returns the model that fits the rewards: logistic where all are 0 or 1, else linear."""
    return Logistic() if np.isin(logged.rewards, (0.0, 1.0)).all() else Ridge()


def cross_fit(logged: LoggedData, model: RewardModel, num_folds: int = 5) -> Floats:
    """Returns predictions for every row by a model that never saw the row; folds are every k-th row."""
    size, num_actions = len(logged.actions), logged.target.shape[1]
    if not 2 <= num_folds <= size:
        raise errors.SetupError(f"{num_folds} folds of {size} decisions: give from 2 to the number of decisions.")
    features = np.empty((size, 0)) if logged.features is None else logged.features
    predicted = np.empty((size, num_actions))
    folds = np.arange(size) % num_folds
    for fold in range(num_folds):
        train_rows, test_rows = folds != fold, folds == fold
        train_features = None if logged.features is None else features[train_rows]
        train = LoggedData(
            logged.actions[train_rows],
            logged.rewards[train_rows],
            logged.propensities[train_rows],
            logged.target[train_rows],
            train_features,
        )
        predicted[test_rows] = model.predict(train, features[test_rows], num_actions)
    return predicted


class Diagnostics(NamedTuple):
    """How far the target policy is from the logging policy.

    Attributes:
        num_decisions: Rows of the log.
        effective_size: So many decisions of the target policy itself would say as much (Kish).
        max_weight: The largest say of one decision; 1 is that of a decision on the target's own log.
        overlap: The mean weight, about 1. Well below it: the target does what was never tried.
    """

    num_decisions: int
    effective_size: float
    max_weight: float
    overlap: float


def diagnose(logged: LoggedData) -> Diagnostics:
    weights = logged.weights
    sum_squares = float((weights**2).sum())
    effective_size = float(weights.sum()) ** 2 / sum_squares if sum_squares else 0.0
    return Diagnostics(len(weights), effective_size, float(weights.max()), float(weights.mean()))


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


def estimate(
    logged: LoggedData, method: str = "dr", *, model: RewardModel | None = None, alpha: float = 0.05
) -> Estimate:
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
