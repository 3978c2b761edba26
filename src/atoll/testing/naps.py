"""Sleeps that change who comes first and nothing else."""

import time
from random import Random


class RandomDelays:
    """Sleeps for a time that depends on a seed and on the place only; up to `longest` seconds."""

    def __init__(self, seed: int, max_seconds: float = 0.002) -> None:
        self._seed, self._max_seconds = seed, max_seconds

    def __call__(self, *position: object) -> None:
        time.sleep(Random(f"{self._seed}/{position}").random() * self._max_seconds)
