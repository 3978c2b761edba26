"""Where to evaluate next when little is known: the expected improvement inside a region around a good point."""

import math

import numpy
from numpy.typing import NDArray

from atoll.mutation.tuner.space import Space, Unit
from atoll.mutation.tuner.surrogate import Surrogate

type Array = NDArray[numpy.float64]

_MAX_LENGTH, _INITIAL_LENGTH, _MIN_LENGTH = 1.6, 0.8, 0.5**7
_NUM_CANDIDATES, _NUM_REFINEMENTS, _NUM_REFINED = 500, 4, 40

_ERFC = (
    0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368,
    -1.26551223,
)  # fmt: skip


class TrustRegion:
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

    def __init__(self, space: Space, initial_length: float = _INITIAL_LENGTH, min_length: float = _MIN_LENGTH) -> None:
        self._space, self._initial_length, self._min_length = space, initial_length, min_length
        self._length, self._wins, self._losses = initial_length, 0, 0
        self._patience = max(4, len(space) // 2)
        self._has_discrete = any(math.isfinite(tunable.num_values) for tunable in space.tunables)
        self.num_collapses = 0

    def update(self, is_better: bool) -> None:
        """Learns whether the last point was a new best."""
        self._wins, self._losses = (self._wins + 1, 0) if is_better else (0, self._losses + 1)
        if self._wins == 2:
            self._length, self._wins = min(2 * self._length, _MAX_LENGTH), 0
        elif self._losses == self._patience:
            self._length, self._losses = self._length / 2, 0
        if self._length < self._min_length:
            self._length, self.num_collapses = self._initial_length, self.num_collapses + 1

    def ask(self, surrogate: Surrogate, known_units: Unit, center: int, best: float, rng: numpy.random.Generator) -> Unit:
        """Returns the most promising point near a known one.

        Args:
            surrogate: What predicts scores.
            known: All points that need not be tried again.
            centre: Which of them is the middle of the region.
            best: The score to improve on, on the scale of the surrogate.
            rng: Draws candidates.
        """
        center_unit, known_units = known_units[center], self._space.snap(known_units)
        candidates = self._draw_candidates(center_unit, surrogate.lengths, rng)
        for refinement in range(_NUM_REFINEMENTS + 1):
            gains = self._compute_gains(surrogate, candidates, known_units, best)
            leader = candidates[int(numpy.argmax(gains))]
            if refinement < _NUM_REFINEMENTS:
                spread = 0.1 * self._length * 0.4**refinement
                nearby = leader + spread * rng.standard_normal((_NUM_REFINED, len(leader)))
                sparse = numpy.where(rng.random(nearby.shape) < min(1.0, 2 / len(leader)), nearby, leader)
                candidates = self._space.snap(numpy.vstack([leader[None, :], nearby, sparse]))
        return numpy.asarray(leader)

    def _draw_candidates(self, best: Array, lengths: Array, rng: numpy.random.Generator) -> Unit:
        """Draws points of the box, most of them with only some coordinates moved."""
        size = len(best)
        weights = self._compute_sides(lengths)
        low, high = best - self._length * weights / 2, best + self._length * weights / 2
        drawn = numpy.clip(low, 0, 1) + rng.random((_NUM_CANDIDATES, size)) * (
            numpy.clip(high, 0, 1) - numpy.clip(low, 0, 1)
        )
        for column, tunable in enumerate(self._space.tunables):
            if tunable.choices:
                drawn[:, column] = rng.random(_NUM_CANDIDATES)  # a choice is as far from one as from another
        moves = rng.random(drawn.shape) < rng.choice([1.0, min(1.0, 8 / size), min(1.0, 2 / size)], (_NUM_CANDIDATES, 1))
        moves[numpy.arange(_NUM_CANDIDATES), rng.integers(0, size, _NUM_CANDIDATES)] = True
        return self._space.snap(numpy.where(moves, drawn, best))

    def _compute_sides(self, lengths: Array) -> Array:
        """Returns the sides of the box: long where the score changes slowly."""
        if len(lengths) != len(self._space):
            return numpy.ones(len(self._space))  # with choices of several, columns are no coordinates
        logs = numpy.log(lengths)
        return numpy.asarray(numpy.exp(numpy.clip(logs - logs.mean(), -2, 2)))

    def _compute_gains(self, surrogate: Surrogate, candidates: Unit, known_units: Unit, best: float) -> Array:
        """Returns the logarithm of the expected improvement; none for what is known."""
        mean, deviation = surrogate.predict(self._space.to_features(candidates))
        z = (mean - best) / deviation
        gains = numpy.log(deviation) + _log_improvement(z)
        if not self._has_discrete:
            return numpy.asarray(gains)  # nothing is drawn twice from a continuum
        known_rows = {row.tobytes() for row in known_units}
        return numpy.where([row.tobytes() in known_rows for row in candidates], -math.inf, gains)


def _log_improvement(z: Array) -> Array:
    """Returns log(phi(z) + z Phi(z)), also far below zero, where it underflows."""
    clipped = numpy.maximum(z, -6.0)
    phi = numpy.exp(-(clipped**2) / 2) / math.sqrt(2 * math.pi)
    low = numpy.log(numpy.maximum(phi + clipped * _normal_cdf(clipped), 1e-300))
    return numpy.where(z > -6.0, low, -(z**2) / 2 - 2 * numpy.log(numpy.maximum(-z, 1.0)) - 0.919)


def _normal_cdf(z: Array) -> Array:
    """Returns the cumulative normal distribution; numpy has no error function.

    A Chebyshev fit of the complementary error function, within 1.2e-7 of its value everywhere (Numerical Recipes 6.2).
    """
    x = abs(z) / math.sqrt(2)
    t = 1 / (1 + x / 2)
    tail = 0.5 * t * numpy.exp(numpy.polyval(_ERFC, t) - x * x)
    return numpy.where(z > 0, 1 - tail, tail)
