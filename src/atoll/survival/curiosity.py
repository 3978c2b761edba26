"""Curiosity: how new something is, by counting and by a small network that learns to expect it."""

import functools
import math
from collections import Counter
from collections.abc import Hashable

import numpy as np

from atoll.survival.worlds.world import Observation

INPUTS, HIDDEN, OUTPUTS = 24, 16, 8
RATE = 0.05


class Counts:
    """Novelty of 1 / sqrt(N) for the N-th time that something is met."""

    def __init__(self) -> None:
        self._counts: Counter[Hashable] = Counter()

    def meet(self, what: Hashable) -> float:
        self._counts[what] += 1
        return 1.0 / math.sqrt(self._counts[what])


class RandomDistillation:
    """RND (Burda et al. 2018) in numpy: a network is trained to say what another, random one says of an observation.

    What was often seen is predicted well; the error is the novelty, divided by its running mean.
    """

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self._target = rng.normal(0, 1 / math.sqrt(INPUTS), (INPUTS, OUTPUTS))
        self._first = rng.normal(0, 1 / math.sqrt(INPUTS), (INPUTS, HIDDEN))
        self._second = rng.normal(0, 1 / math.sqrt(HIDDEN), (HIDDEN, OUTPUTS))
        self._mean = 0.0
        self._seen = 0

    def meet(self, seen: Observation) -> float:
        """Returns the novelty of an observation, about 1 at first, and learns it."""
        inputs = features(seen)
        hidden = np.tanh(inputs @ self._first)
        error = hidden @ self._second - np.tanh(inputs @ self._target)
        found = float(error @ error)
        back = (self._second @ error) * (1.0 - hidden**2)
        self._second -= RATE * np.outer(hidden, error)
        self._first -= RATE * np.outer(inputs, back)
        self._seen += 1
        self._mean += (found - self._mean) / min(self._seen, 200)
        return min(5.0, found / self._mean) if self._mean > 0 else 0.0


def features(seen: Observation) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Returns an observation as numbers: levels, and the looks in sight hashed into a few places."""
    found = np.zeros(INPUTS)
    found[0], found[1], found[2] = seen.life, min(seen.resources.values(), default=1.0), float(seen.is_dark)
    for look in seen.looks.values():
        found[3 + _place(look)] += 0.15
    return found


@functools.cache
def _place(look: str) -> int:
    # Python's own hash differs from process to process, and a run must not.
    return sum((position + 1) * ord(letter) for position, letter in enumerate(look)) % (INPUTS - 3)
