"""Fear: each turn the agent forecasts the probability of damage within a few ticks and learns from the outcome."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from atoll.candidate import JSON
from atoll.survival.worlds.world import Observation

FEATURES = (
    "bias", "path", "hunters", "hunger", "starving", "dark", "dusk", "hurt", "standing", "unknown", "stated", "caution",
)  # fmt: skip
# Initial weights: tiles that look dangerous probably are. `stated` and `caution` come from an LLM.
INITIAL_WEIGHTS = (-2.5, 4.0, 1.5, 1.5, 2.5, 1.5, 0.8, 0.8, 1.0, 0.5, 0.5, 0.5)
LEARNING_RATE, WEIGHT_DECAY = 0.15, 0.0005
WINDOW, MIN_UNDERESTIMATE, BIAS_STEP = 60, 0.12, 0.25  # raise forecasts after this much underestimation
MIN_DAMAGE = 0.004


class ForecastOutcome(NamedTuple):
    forecast: float
    happened: bool


@dataclass(slots=True)
class _PendingForecast:
    tick: int
    features: tuple[float, ...]
    forecast: float


@dataclass(slots=True)
class Forecaster:
    """Logistic model of "damage within `horizon` ticks" that learns from each of its forecasts.

    It corrects underestimation: if damage was clearly more frequent than the last forecasts said, it raises all
    forecasts at once.

    Attributes:
        corrections: Number of such corrections in this episode.
        first_entries: Number of first entries of a tile, and how many hurt. They give the prior of unknown tiles.
    """

    horizon: int = 5
    weights: list[float] = field(default_factory=lambda: list(INITIAL_WEIGHTS))
    first_entries: list[float] = field(default_factory=lambda: [3.0, 1.0])
    corrections: int = 0
    outcomes: list[ForecastOutcome] = field(default_factory=list)
    _pending: deque[_PendingForecast] = field(default_factory=deque)
    _recent: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    _num_updates: int = 0

    @property
    def prior(self) -> float:
        """Probability that an unknown tile hurts."""
        return self.first_entries[1] / self.first_entries[0]

    def forecast(self, features: Sequence[float]) -> float:
        total = sum(weight * feature for weight, feature in zip(self.weights, features, strict=True))
        return 1.0 / (1.0 + math.exp(-max(-12.0, min(12.0, total))))

    def issue_forecast(self, tick: int, features: Sequence[float]) -> float:
        """Makes a forecast whose outcome is tracked."""
        probability = self.forecast(features)
        self._pending.append(_PendingForecast(tick, tuple(features), probability))
        return probability

    def resolve(self, observation: Observation) -> None:
        """Resolves pending forecasts that have expired or that damage has confirmed."""
        is_hurt = sum(observation.harm.values()) >= MIN_DAMAGE or not observation.is_alive
        if is_hurt:
            while self._pending:
                self._resolve_forecast(self._pending.popleft(), True)
        while self._pending and observation.tick - self._pending[0].tick >= self.horizon:
            self._resolve_forecast(self._pending.popleft(), False)

    def record_first_entry(self, is_hurt: bool) -> None:
        self.first_entries[0] += 1
        self.first_entries[1] += is_hurt
        if self.first_entries[0] > 60:  # old counts fade, because the world may change
            self.first_entries = [count / 2 for count in self.first_entries]

    def _resolve_forecast(self, pending: _PendingForecast, happened: bool) -> None:
        self.outcomes.append(ForecastOutcome(pending.forecast, happened))
        error = happened - self.forecast(pending.features)
        self._num_updates += 1
        rate = LEARNING_RATE / math.sqrt(1.0 + self._num_updates / 100)
        self.weights = [
            weight + rate * error * feature - WEIGHT_DECAY * rate * (weight - initial)
            for weight, feature, initial in zip(self.weights, pending.features, INITIAL_WEIGHTS, strict=True)
        ]
        self._recent.append(happened - pending.forecast)
        if len(self._recent) == WINDOW and sum(self._recent) / WINDOW > MIN_UNDERESTIMATE:
            self.weights[0] += BIAS_STEP
            self.corrections += 1
            self._recent.clear()

    def to_data(self) -> dict[str, JSON]:
        weights, firsts = ([round(value, 5) for value in values] for values in (self.weights, self.first_entries))
        return {"weights": weights, "firsts": firsts, "steps": self._num_updates}

    @classmethod
    def from_data(cls, data: Mapping[str, Any], horizon: int) -> "Forecaster":
        forecaster = cls(horizon)
        if weights := list(data.get("weights", ()))[: len(INITIAL_WEIGHTS)]:  # version 0.1 had fewer features
            forecaster.weights = [*weights, *INITIAL_WEIGHTS[len(weights) :]]
            forecaster.first_entries = list(data["firsts"])
            forecaster._num_updates = int(data["steps"])
        return forecaster
