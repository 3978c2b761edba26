"""Drives of an agent. Fear: a learned forecast of damage. Curiosity: novelty of places and observations."""

import functools
import math
from collections import Counter, deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from atoll.candidate import JSON
from atoll.survival.worlds.world import Observation

FEATURES = (
    "bias", "path", "hunters", "hunger", "starving", "dark", "dusk", "hurt", "standing", "unknown", "stated", "caution",
)  # fmt: skip
# Initial weights: tiles that look dangerous probably are. `stated` and `caution` come from an LLM.
INITIAL_WEIGHTS = (-2.5, 4.0, 1.5, 1.5, 2.5, 1.5, 0.8, 0.8, 1.0, 0.5, 0.5, 0.5)
FEAR_LEARNING_RATE, WEIGHT_DECAY = 0.15, 0.0005
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
        rate = FEAR_LEARNING_RATE / math.sqrt(1.0 + self._num_updates / 100)
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


NUM_INPUTS, NUM_HIDDEN, NUM_OUTPUTS = 24, 16, 8
CURIOSITY_LEARNING_RATE = 0.05


class VisitCounts:
    """Novelty of 1 / sqrt(N) for the N-th visit."""

    def __init__(self) -> None:
        self._counts: Counter[Hashable] = Counter()

    def measure_novelty(self, key: Hashable) -> float:
        self._counts[key] += 1
        return 1.0 / math.sqrt(self._counts[key])


class RandomDistillation:
    """RND (Burda et al. 2018) in numpy: a network learns to predict the output of a fixed random network.

    Familiar observations are predicted well. The novelty is the error divided by its running mean.
    """

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self._target_weights = rng.normal(0, 1 / math.sqrt(NUM_INPUTS), (NUM_INPUTS, NUM_OUTPUTS))
        self._hidden_weights = rng.normal(0, 1 / math.sqrt(NUM_INPUTS), (NUM_INPUTS, NUM_HIDDEN))
        self._output_weights = rng.normal(0, 1 / math.sqrt(NUM_HIDDEN), (NUM_HIDDEN, NUM_OUTPUTS))
        self._mean_error = 0.0
        self._num_updates = 0

    def measure_novelty(self, observation: Observation) -> float:
        """Returns the novelty of an observation, about 1 at first, and learns it."""
        inputs = encode_observation(observation)
        hidden = np.tanh(inputs @ self._hidden_weights)
        error = hidden @ self._output_weights - np.tanh(inputs @ self._target_weights)
        squared_error = float(error @ error)
        hidden_gradient = (self._output_weights @ error) * (1.0 - hidden**2)
        self._output_weights -= CURIOSITY_LEARNING_RATE * np.outer(hidden, error)
        self._hidden_weights -= CURIOSITY_LEARNING_RATE * np.outer(inputs, hidden_gradient)
        self._num_updates += 1
        self._mean_error += (squared_error - self._mean_error) / min(self._num_updates, 200)
        return min(5.0, squared_error / self._mean_error) if self._mean_error > 0 else 0.0


def encode_observation(observation: Observation) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Returns an observation as numbers: levels, and the visible tiles hashed into a few features."""
    features = np.zeros(NUM_INPUTS)
    features[:2] = observation.life, min(observation.resources.values(), default=1.0)
    features[2] = observation.is_dark
    for tile in observation.tiles.values():
        features[3 + _hash_tile(tile)] += 0.15
    return features


@functools.cache
def _hash_tile(tile: str) -> int:
    # Python's hash differs between processes; runs must be reproducible.
    return sum((position + 1) * ord(char) for position, char in enumerate(tile)) % (NUM_INPUTS - 3)
