"""Novelty by visit counts and by the prediction error of a small network."""

import functools
import math
from collections import Counter
from collections.abc import Hashable

import numpy as np

from atoll.survival.worlds.world import Observation

NUM_INPUTS, NUM_HIDDEN, NUM_OUTPUTS = 24, 16, 8
LEARNING_RATE = 0.05


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
        self._output_weights -= LEARNING_RATE * np.outer(hidden, error)
        self._hidden_weights -= LEARNING_RATE * np.outer(inputs, hidden_gradient)
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
