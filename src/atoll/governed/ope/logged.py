"""Logged decisions with what was earned, as columns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atoll import errors
from atoll.governed.logs.entry import LogEntry
from atoll.governed.replay.event import ReplayEvent

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
