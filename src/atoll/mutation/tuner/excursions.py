"""Which region is searched next: the one around the best point, and others while that one stagnates."""

import math

import numpy
from numpy.typing import NDArray

from atoll.mutation.tuner.region import TrustRegion
from atoll.mutation.tuner.space import Space, Unit
from atoll.mutation.tuner.surrogate import Surrogate

type Array = NDArray[numpy.float64]

_ROUNDING_SLACK = 0.05  # of a step: where it ends matters no more than that, so that it may end on a round number
_MAX_POINTS = 128  # points that the surrogate knows, the nearest ones: what is farther costs more than it tells
_MIN_GAIN = 1e-3  # of the distance from the middling score to the best: less is no progress
_SAME_HILL_DISTANCE = 0.15  # of each range: points that are as near as this in all of them stand on the same hill
_EXCURSION_LENGTH, _MIN_EXCURSION_LENGTH = 0.3, 0.03  # of an excursion's region: smaller, so that it climbs its own hill and ends soon


class RegionScheduler:
    """A region around the best point, and in turns with it an excursion to another hill once it stagnates.

    A search that only ever narrows around its best stays on the first hill that it finds. So every other evaluation of
    one that stagnates is spent on a few drawn points, then on a region around the best of the drawn ones that lies on
    no hill that was climbed before. They are drawn over the whole space, and every second time around the best, with
    one or two coordinates anew: numbers often act apart. The two regions share one surrogate. An excursion that finds
    a new best becomes the home; one that collapses or comes back to the hill of the best is over.

    Attributes:
        drawn: Which evaluations were drawn over the space: where excursions may begin.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._surrogate = Surrogate(space.to_features(space.to_unit(space.start)[None, :]).shape[1])
        self._main_region, self._excursion_region = TrustRegion(space), TrustRegion(space, _EXCURSION_LENGTH, _MIN_EXCURSION_LENGTH)
        self._patience = 6 + 2 * len(space)
        self._num_stale, self._reference_score = 0, -math.inf
        self._is_excursion = False
        self._explored_units: list[Unit] = []
        self._num_excursions = 0
        self._num_idle, self._excursion_best = 0, -math.inf  # evaluations of this excursion without progress, and what it reached
        self._members: list[int] = []  # evaluations of this excursion
        self._start_index = 0  # which evaluation its region began around
        self._pending: list[Unit] = []
        self.drawn_indices: list[int] = []

    def update(self, known_units: list[Unit], scores: Array) -> None:
        """Learns what the last point scored."""
        last = len(scores) - 1
        is_best = bool((scores[last] > scores[:last]).all())
        self._count_stale(scores)
        if not self._is_excursion:
            self._main_region.update(is_best)
            return
        was_pending = last in self.drawn_indices
        is_better = not self._members or scores[last] > max(scores[index] for index in self._members)
        self._members.append(last)
        if is_best:
            self._explored_units.append(known_units[int(numpy.argmax(scores[:last]))])
            self._main_region, self._num_stale = TrustRegion(self._space), 0
            self._end_excursion()
        elif not was_pending:
            self._excursion_region.update(is_better)
            self._num_idle = 0 if is_better and scores[last] > self._excursion_best + self._compute_min_gain(scores) else self._num_idle + 1
            self._excursion_best = max(self._excursion_best, float(scores[last])) if not self._num_idle else self._excursion_best

    def _count_stale(self, scores: Array) -> None:
        """Counts evaluations without progress."""
        best = float(scores.max())
        if best > self._reference_score + self._compute_min_gain(scores):
            self._reference_score, self._num_stale = best, 0
        else:
            self._num_stale += 1

    def _compute_min_gain(self, scores: Array) -> float:
        """Returns what is progress at the least."""
        return _MIN_GAIN * float(scores.max() - numpy.median(scores))

    def _end_excursion(self) -> None:
        self._num_idle, self._excursion_best, self._start_index = 0, -math.inf, 0
        self._excursion_region, self._members, self._pending = TrustRegion(self._space, _EXCURSION_LENGTH, _MIN_EXCURSION_LENGTH), [], []

    def ask(self, known_units: Unit, scores: Array, rng: numpy.random.Generator) -> Unit:
        """Returns the most promising point that is not known."""
        period = 4 if self._main_region.num_collapses else 2  # a home that has collapsed has little left to find
        self._is_excursion = self._num_stale > self._patience and len(scores) % period != 0
        if self._is_excursion and not self._members and not self._pending:
            self._pending = self._draw_starts(known_units[int(numpy.argmax(scores))], rng)
        if self._is_excursion and self._pending:
            self.drawn_indices.append(len(scores))
            return self._pending.pop(0)
        center = self._choose_center(known_units, scores) if self._is_excursion else int(numpy.argmax(scores))
        nearest = numpy.argsort(((known_units - known_units[center]) ** 2).sum(1), kind="stable")
        if self._is_excursion:
            nearest = nearest[[self._is_unexplored(known_units[index], known_units, scores) for index in nearest]]
        nearest = nearest[:_MAX_POINTS]
        standardized = _standardize(scores[nearest])
        self._surrogate.fit(self._space.to_features(known_units[nearest]), standardized)
        region = self._excursion_region if self._is_excursion else self._main_region
        proposed_unit = region.ask(self._surrogate, known_units, center, float(standardized[0]), rng)
        slack = _ROUNDING_SLACK * abs(proposed_unit - known_units[center])
        return numpy.asarray(self._space.round_units(proposed_unit[None, :], slack[None, :])[0])

    def _draw_starts(self, best: Unit, rng: numpy.random.Generator) -> list[Unit]:
        """Returns points where hills may be."""
        self._num_excursions += 1
        points = numpy.stack(draw_latin_hypercube(self._space, rng))
        if self._num_excursions % 2 == 0:
            column_order = numpy.concatenate([rng.permutation(len(best)) for _ in range(2 + len(points) // len(best))])
            is_moved = numpy.zeros(points.shape, dtype=bool)
            for row, count in enumerate(rng.integers(1, 3, len(points))):
                is_moved[row, column_order[row : row + count]] = True
            points = numpy.where(is_moved, points, best)
        return list(self._space.round_units(points, 0.02 * (points != best)))

    def _choose_center(self, known_units: Unit, scores: Array) -> int:
        """Returns the middle of the excursion; it may turn out to be over, then of home."""
        open_indices = [index for index in {*self.drawn_indices, *self._members} if self._is_unexplored(known_units[index], known_units, scores)]
        best_member = max((index for index in self._members if index not in self.drawn_indices), key=lambda index: scores[index], default=None)
        is_finished = self._excursion_region.num_collapses > 0 or self._num_idle > self._patience // 2
        if is_finished or not open_indices or (best_member is not None and best_member not in open_indices):
            # Where it began leads to a hill that is known now, so that the next one need not begin there.
            self._explored_units += [known_units[index] for index in (self._start_index, best_member) if index is not None]
            self._end_excursion()
            self._is_excursion = False
            return int(numpy.argmax(scores))
        if best_member is None:
            self._start_index = max(open_indices, key=lambda index: float(scores[index]))
        return best_member if best_member is not None and scores[best_member] > scores[self._start_index] else self._start_index

    def _is_unexplored(self, unit: Unit, known_units: Unit, scores: Array) -> bool:
        """Says whether a point stands on no hill that was climbed: only of such does an excursion know.

        The many points on top of the best hill would make all the rest look like one plain.
        """
        explored_units = numpy.stack([*self._explored_units, known_units[int(numpy.argmax(scores))]])
        return bool(abs(explored_units - unit).max(axis=1).min() > _SAME_HILL_DISTANCE)


def draw_latin_hypercube(space: Space, rng: numpy.random.Generator) -> list[Unit]:
    """Returns a Latin hypercube: points that share no share of any coordinate."""
    size = len(space)
    count = min(10, 3 + size // 2)
    strata = numpy.stack([rng.permutation(count) for _ in range(size)], axis=1)
    return list((strata + rng.random((count, size))) / count)


def _standardize(scores: Array) -> Array:
    """Standardises scores; how bad the bad ones are says nothing about where the best are, so it is cut off."""
    best, middle = scores.max(), numpy.median(scores)
    clipped = numpy.maximum(scores, middle - 1.0 * (best - middle))
    deviation = clipped.std()
    return numpy.asarray((clipped - clipped.mean()) / (deviation if deviation > 0 else 1.0))
