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
        clusters = range(len(self._scores))
        tournaments = [self._rng.sample(clusters, min(3, len(clusters))) for _ in clusters[:k]]
        winners = [max(indices, key=lambda index: self._scores[index]) for indices in tournaments]
        return list(dict.fromkeys(winners))

    def clear(self) -> None:
        """Forgets all clusters."""
        self._scores.clear()
