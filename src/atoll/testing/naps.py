"""Sleeps that change who comes first and nothing else."""

import time
from random import Random


class Naps:
    """Sleeps for a time that depends on a seed and on the place only; up to `longest` seconds."""

    def __init__(self, seed: int, longest: float = 0.002) -> None:
        self._seed, self._longest = seed, longest

    def __call__(self, *place: object) -> None:
        time.sleep(Random(f"{self._seed}/{place}").random() * self._longest)
