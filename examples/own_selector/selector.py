"""Your own selector: a tournament of three. `atoll.toml` names it."""

from collections.abc import Sequence
from random import Random


class TournamentSelector:
    """Draws each parent cluster as the best of three random ones."""

    def __init__(self, rng: Random, temperature: float) -> None:
        self._rng, self._scores = rng, list[float]()

    def set(self, index: int, score: float, size: int) -> None:
        """Adds a cluster, or changes its score."""
        self._scores[index : index + 1] = [score]

    def select(self, k: int, registered: int) -> Sequence[int]:
        """Draws up to k different clusters."""
        remaining = list(range(len(self._scores)))
        drawn = []
        while remaining and len(drawn) < k:
            contestants = self._rng.sample(remaining, min(3, len(remaining)))
            drawn.append(max(contestants, key=lambda index: self._scores[index]))
            remaining.remove(drawn[-1])
        return drawn

    def clear(self) -> None:
        """Forgets all clusters."""
        self._scores.clear()
