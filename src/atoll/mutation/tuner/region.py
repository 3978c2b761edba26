"""Where to evaluate next when little is known: the expected improvement inside a region around a good point."""

import math

import numpy
from numpy.typing import NDArray

from atoll.mutation.tuner.space import Space, Unit
from atoll.mutation.tuner.surrogate import Surrogate

type Array = NDArray[numpy.float64]

_LONGEST, _FIRST, _SHORTEST = 1.6, 0.8, 0.5**7
_CANDIDATES, _REFINEMENTS, _REFINED = 500, 4, 40

_ERFC = (
    0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368,
    -1.26551223,
)  # fmt: skip


class Region:
    """A box around a point that grows with success and shrinks with failure (after TuRBO, Eriksson 2019).

    Without it a surrogate of twenty dimensions looks into corners that it knows nothing of; with it the search turns
    local as evaluations go by. What has collapsed starts over at full size with all that is known.

    Args:
        space: What may change.
        first: How long the box is at first, as a share of each range.
        shortest: Below it, the box has collapsed.

    Attributes:
        num_collapses: How often it has.
    """

    def __init__(self, space: Space, first: float = _FIRST, shortest: float = _SHORTEST) -> None:
        self._space, self._first, self._shortest = space, first, shortest
        self._length, self._wins, self._losses = first, 0, 0
        self._patience = max(4, len(space) // 2)
        self._has_steps = any(math.isfinite(each.num_values) for each in space.tunables)
        self.num_collapses = 0

    def note(self, is_better: bool) -> None:
        """Learns whether the last point was a new best."""
        self._wins, self._losses = (self._wins + 1, 0) if is_better else (0, self._losses + 1)
        if self._wins == 2:
            self._length, self._wins = min(2 * self._length, _LONGEST), 0
        elif self._losses == self._patience:
            self._length, self._losses = self._length / 2, 0
        if self._length < self._shortest:
            self._length, self.num_collapses = self._first, self.num_collapses + 1

    def ask(self, surrogate: Surrogate, known: Unit, centre: int, best: float, rng: numpy.random.Generator) -> Unit:
        """Returns the most promising point near a known one.

        Args:
            surrogate: What predicts scores.
            known: All points that need not be tried again.
            centre: Which of them is the middle of the region.
            best: The score to improve on, on the scale of the surrogate.
            rng: Draws candidates.
        """
        middle, known = known[centre], self._space.snapped(known)
        candidates = self._candidates(middle, surrogate.lengths, rng)
        for round in range(_REFINEMENTS + 1):
            gains = self._gains(surrogate, candidates, known, best)
            leader = candidates[int(numpy.argmax(gains))]
            if round < _REFINEMENTS:
                spread = 0.1 * self._length * 0.4**round
                near = leader + spread * rng.standard_normal((_REFINED, len(leader)))
                one = numpy.where(rng.random(near.shape) < min(1.0, 2 / len(leader)), near, leader)
                candidates = self._space.snapped(numpy.vstack([leader[None, :], near, one]))
        return numpy.asarray(leader)

    def _candidates(self, best: Array, lengths: Array, rng: numpy.random.Generator) -> Unit:
        """Draws points of the box, most of them with only some coordinates moved."""
        size = len(best)
        weights = self._sides(lengths)
        low, high = best - self._length * weights / 2, best + self._length * weights / 2
        drawn = numpy.clip(low, 0, 1) + rng.random((_CANDIDATES, size)) * (
            numpy.clip(high, 0, 1) - numpy.clip(low, 0, 1)
        )
        for column, each in enumerate(self._space.tunables):
            if each.choices:
                drawn[:, column] = rng.random(_CANDIDATES)  # a choice is as far from one as from another
        moves = rng.random(drawn.shape) < rng.choice([1.0, min(1.0, 8 / size), min(1.0, 2 / size)], (_CANDIDATES, 1))
        moves[numpy.arange(_CANDIDATES), rng.integers(0, size, _CANDIDATES)] = True
        return self._space.snapped(numpy.where(moves, drawn, best))

    def _sides(self, lengths: Array) -> Array:
        """Returns the sides of the box: long where the score changes slowly."""
        if len(lengths) != len(self._space):
            return numpy.ones(len(self._space))  # with choices of several, columns are no coordinates
        logs = numpy.log(lengths)
        return numpy.asarray(numpy.exp(numpy.clip(logs - logs.mean(), -2, 2)))

    def _gains(self, surrogate: Surrogate, candidates: Unit, known: Unit, best: float) -> Array:
        """Returns the logarithm of the expected improvement; none for what is known."""
        mean, deviation = surrogate.predict(self._space.features(candidates))
        z = (mean - best) / deviation
        gains = numpy.log(deviation) + _log_improvement(z)
        if not self._has_steps:
            return numpy.asarray(gains)  # nothing is drawn twice from a continuum
        seen = {row.tobytes() for row in known}
        return numpy.where([row.tobytes() in seen for row in candidates], -math.inf, gains)


def _log_improvement(z: Array) -> Array:
    """Returns log(phi(z) + z Phi(z)), also far below zero, where it underflows."""
    near = numpy.maximum(z, -6.0)
    phi = numpy.exp(-(near**2) / 2) / math.sqrt(2 * math.pi)
    low = numpy.log(numpy.maximum(phi + near * _normal(near), 1e-300))
    return numpy.where(z > -6.0, low, -(z**2) / 2 - 2 * numpy.log(numpy.maximum(-z, 1.0)) - 0.919)


def _normal(z: Array) -> Array:
    """Returns the cumulative normal distribution; numpy has no error function.

    A Chebyshev fit of the complementary error function, within 1.2e-7 of its value everywhere (Numerical Recipes 6.2).
    """
    x = abs(z) / math.sqrt(2)
    t = 1 / (1 + x / 2)
    tail = 0.5 * t * numpy.exp(numpy.polyval(_ERFC, t) - x * x)
    return numpy.where(z > 0, 1 - tail, tail)
