"""Search regions of the optimizer: a region around the best point, and excursions while it stagnates."""

import math
from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

from atoll.mutation.tuner.space import Space, Tunable, Unit
from atoll.mutation.tuner.surrogate import Surrogate

type Array = NDArray[numpy.float64]

_MAX_LENGTH, _INITIAL_LENGTH, _MIN_LENGTH = 1.6, 0.8, 0.5**7
_NUM_CANDIDATES, _NUM_REFINEMENTS, _NUM_REFINED = 500, 4, 40

_ERFC = (
    0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368,
    -1.26551223,
)  # fmt: skip


class TrustRegion:
    """Box around a point that grows with success and shrinks with failure (after TuRBO, Eriksson 2019).

    Without it, a surrogate with twenty dimensions would search unknown corners. With it, the search becomes local. A
    collapsed box restarts at full size and keeps all evaluations.

    Args:
        space: The tunables.
        initial_length: Initial length of the box, as a share of each range.
        min_length: Length below which the box has collapsed.

    Attributes:
        num_collapses: Number of collapses.
    """

    def __init__(self, space: Space, initial_length: float = _INITIAL_LENGTH, min_length: float = _MIN_LENGTH) -> None:
        self._space, self._initial_length, self._min_length = space, initial_length, min_length
        self._length, self._wins, self._losses = initial_length, 0, 0
        self._patience = max(4, len(space) // 2)
        self._has_discrete = any(math.isfinite(tunable.num_values) for tunable in space.tunables)
        self.num_collapses = 0

    def update(self, is_better: bool) -> None:
        """Updates the size of the box with the result of the last point."""
        self._wins, self._losses = (self._wins + 1, 0) if is_better else (0, self._losses + 1)
        if self._wins == 2:
            self._length, self._wins = min(2 * self._length, _MAX_LENGTH), 0
        elif self._losses == self._patience:
            self._length, self._losses = self._length / 2, 0
        if self._length < self._min_length:
            self._length, self.num_collapses = self._initial_length, self.num_collapses + 1

    def ask(
        self, surrogate: Surrogate, known_units: Unit, center: int, best: float, rng: numpy.random.Generator
    ) -> Unit:
        """Returns the most promising point near a known one.

        Args:
            surrogate: Predicts scores.
            known_units: All evaluated points.
            center: Index of the point at the center of the region.
            best: The score to improve, on the scale of the surrogate.
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
        """Draws points in the box. Most of them change only some coordinates."""
        size = len(best)
        weights = self._compute_sides(lengths)
        low, high = best - self._length * weights / 2, best + self._length * weights / 2
        low, high = numpy.clip(low, 0, 1), numpy.clip(high, 0, 1)
        drawn = low + rng.random((_NUM_CANDIDATES, size)) * (high - low)
        for column, tunable in enumerate(self._space.tunables):
            if tunable.choices:
                drawn[:, column] = rng.random(_NUM_CANDIDATES)  # all choices are equally far apart
        moves = rng.random(drawn.shape) < rng.choice(
            [1.0, min(1.0, 8 / size), min(1.0, 2 / size)], (_NUM_CANDIDATES, 1)
        )
        moves[numpy.arange(_NUM_CANDIDATES), rng.integers(0, size, _NUM_CANDIDATES)] = True
        return self._space.snap(numpy.where(moves, drawn, best))

    def _compute_sides(self, lengths: Array) -> Array:
        """Returns the side lengths of the box: long if the score changes slowly."""
        if len(lengths) != len(self._space):
            return numpy.ones(len(self._space))  # with choices, columns are not coordinates
        logs = numpy.log(lengths)
        return numpy.asarray(numpy.exp(numpy.clip(logs - logs.mean(), -2, 2)))

    def _compute_gains(self, surrogate: Surrogate, candidates: Unit, known_units: Unit, best: float) -> Array:
        """Returns the logarithm of the expected improvement; -inf for known points."""
        mean, deviation = surrogate.predict(self._space.to_features(candidates))
        z = (mean - best) / deviation
        gains = numpy.log(deviation) + _log_improvement(z)
        if not self._has_discrete:
            return numpy.asarray(gains)  # continuous points are never drawn twice
        known_rows = {row.tobytes() for row in known_units}
        return numpy.where([row.tobytes() in known_rows for row in candidates], -math.inf, gains)


def _log_improvement(z: Array) -> Array:
    """Returns log(phi(z) + z Phi(z)), also far below zero, where the plain formula underflows."""
    clipped = numpy.maximum(z, -6.0)
    phi = numpy.exp(-(clipped**2) / 2) / math.sqrt(2 * math.pi)
    low = numpy.log(numpy.maximum(phi + clipped * _normal_cdf(clipped), 1e-300))
    return numpy.where(z > -6.0, low, -(z**2) / 2 - 2 * numpy.log(numpy.maximum(-z, 1.0)) - 0.919)


def _normal_cdf(z: Array) -> Array:
    """Returns the cumulative normal distribution, because numpy has no error function.

    It is a Chebyshev fit of the complementary error function with an error of 1.2e-7 (Numerical Recipes 6.2).
    """
    x = abs(z) / math.sqrt(2)
    t = 1 / (1 + x / 2)
    tail = 0.5 * t * numpy.exp(numpy.polyval(_ERFC, t) - x * x)
    return numpy.where(z > 0, 1 - tail, tail)


_ROUNDING_SLACK = 0.05  # of a step: its end may move this much to a round number
_MAX_POINTS = 128  # nearest points for the surrogate; farther ones cost more than they help
_MIN_GAIN = 1e-3  # of the distance from the median score to the best: less is not progress
_SAME_HILL_DISTANCE = 0.15  # of each range: closer points are on the same hill
_EXCURSION_LENGTH, _MIN_EXCURSION_LENGTH = 0.3, 0.03  # small, so that an excursion climbs its own hill and ends soon


class RegionScheduler:
    """Main region around the best point. While it stagnates, it alternates with an excursion to another hill.

    A search that only narrows around its best point stays on the first hill. So while it stagnates, every other
    evaluation goes to an excursion. An excursion draws a few points over the whole space, or every second time changes
    one or two coordinates of the best point. Then it searches a region around the best of these points that is not on
    a known hill. Both regions share one surrogate. An excursion with a new best becomes the main region. It ends when
    it collapses or returns to the hill of the best point.

    Attributes:
        drawn_indices: Indices of the evaluations that were drawn over the space, where excursions may begin.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._surrogate = Surrogate(space.to_features(space.to_unit(space.start)[None, :]).shape[1])
        self._main_region = TrustRegion(space)
        self._excursion_region = TrustRegion(space, _EXCURSION_LENGTH, _MIN_EXCURSION_LENGTH)
        self._patience = 6 + 2 * len(space)
        self._num_stale, self._reference_score = 0, -math.inf
        self._is_excursion = False
        self._explored_units: list[Unit] = []
        self._num_excursions = 0
        self._num_idle, self._excursion_best = 0, -math.inf  # evaluations of this excursion without progress, its best
        self._members: list[int] = []  # evaluations of this excursion
        self._start_index = 0  # the evaluation at the first center of its region
        self._pending: list[Unit] = []
        self.drawn_indices: list[int] = []

    def update(self, known_units: list[Unit], scores: Array) -> None:
        """Updates the regions with the score of the last point."""
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
            if is_better and scores[last] > self._excursion_best + self._compute_min_gain(scores):
                self._num_idle, self._excursion_best = 0, max(self._excursion_best, float(scores[last]))
            else:
                self._num_idle += 1

    def _count_stale(self, scores: Array) -> None:
        """Counts evaluations without progress."""
        best = float(scores.max())
        if best > self._reference_score + self._compute_min_gain(scores):
            self._reference_score, self._num_stale = best, 0
        else:
            self._num_stale += 1

    def _compute_min_gain(self, scores: Array) -> float:
        """Returns the smallest gain that counts as progress."""
        return _MIN_GAIN * float(scores.max() - numpy.median(scores))

    def _end_excursion(self) -> None:
        self._num_idle, self._excursion_best, self._start_index = 0, -math.inf, 0
        self._excursion_region = TrustRegion(self._space, _EXCURSION_LENGTH, _MIN_EXCURSION_LENGTH)
        self._members, self._pending = [], []

    def ask(self, known_units: Unit, scores: Array, rng: numpy.random.Generator) -> Unit:
        """Returns the most promising new point."""
        period = 4 if self._main_region.num_collapses else 2  # a collapsed main region has little left to find
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
        """Returns points that may be on other hills."""
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
        """Returns the index of the center of the excursion, or of the main region if the excursion has ended."""
        indices = {*self.drawn_indices, *self._members}
        open_indices = [index for index in indices if self._is_unexplored(known_units[index], known_units, scores)]
        members = (index for index in self._members if index not in self.drawn_indices)
        best_member = max(members, key=lambda index: scores[index], default=None)
        is_finished = self._excursion_region.num_collapses > 0 or self._num_idle > self._patience // 2
        if is_finished or not open_indices or (best_member is not None and best_member not in open_indices):
            # Its start leads to a hill that is known now, so the next excursion starts elsewhere.
            explored = [self._start_index] if best_member is None else [self._start_index, best_member]
            self._explored_units += [known_units[index] for index in explored]
            self._end_excursion()
            self._is_excursion = False
            return int(numpy.argmax(scores))
        if best_member is None:
            self._start_index = max(open_indices, key=lambda index: float(scores[index]))
        if best_member is not None and scores[best_member] > scores[self._start_index]:
            return best_member
        return self._start_index

    def _is_unexplored(self, unit: Unit, known_units: Unit, scores: Array) -> bool:
        """Returns whether a point is on no known hill. The surrogate of an excursion uses only such points.

        The many points on top of the best hill would make everything else look flat.
        """
        explored_units = numpy.stack([*self._explored_units, known_units[int(numpy.argmax(scores))]])
        return bool(abs(explored_units - unit).max(axis=1).min() > _SAME_HILL_DISTANCE)


def draw_latin_hypercube(space: Space, rng: numpy.random.Generator) -> list[Unit]:
    """Returns a Latin hypercube: no two points share an interval of any coordinate."""
    size = len(space)
    count = min(10, 3 + size // 2)
    strata = numpy.stack([rng.permutation(count) for _ in range(size)], axis=1)
    return list((strata + rng.random((count, size))) / count)


def _standardize(scores: Array) -> Array:
    """Standardizes scores and clips low ones, which say nothing about the position of the best."""
    best, middle = scores.max(), numpy.median(scores)
    clipped = numpy.maximum(scores, middle - 1.0 * (best - middle))
    deviation = clipped.std()
    return numpy.asarray((clipped - clipped.mean()) / (deviation if deviation > 0 else 1.0))


_PROBES = (0.5, 0.12, 0.88, 0.3, 0.7)  # first positions after the start
_GOLDEN = (3 - math.sqrt(5)) / 2
_MIN_BRACKET = 1e-5


def choose_next_unit(tunable: Tunable, observations: Sequence[tuple[float, float]]) -> float | None:
    """Returns the next position between 0 and 1 to maximize the score; None if nothing is left to find.

    Args:
        tunable: The number.
        observations: Pairs of position and score.
    """
    points = sorted(observations)
    positions = [position for position, _ in points]
    for probe in _PROBES:
        min_distance = 0.08 if math.isinf(tunable.num_values) else 0.5 / tunable.num_values
        is_far = _compute_distance(probe, positions) > min_distance
        if len(points) <= len(_PROBES) and is_far and _is_new(tunable, probe, positions):
            return _snap(tunable, probe)
    best_index = max(range(len(points)), key=lambda index: points[index][1])
    low = positions[best_index - 1] if best_index > 0 else 0.0
    high = positions[best_index + 1] if best_index + 1 < len(positions) else 1.0
    best = positions[best_index]
    vertex, golden = _find_vertex(points, best_index), _split_golden(low, best, high)
    for guess in (vertex, golden, (low + best) / 2, (best + high) / 2):
        if guess is None or not _is_new(tunable, guess, positions):
            continue
        if _compute_distance(guess, positions) > _MIN_BRACKET:
            return _snap(tunable, guess)
    return None


def _find_vertex(points: Sequence[tuple[float, float]], index: int) -> float | None:
    """Returns the vertex of the parabola through the best point and its neighbors."""
    if not 0 < index < len(points) - 1:
        return None
    (a, fa), (b, fb), (c, fc) = points[index - 1 : index + 2]
    denominator = (b - a) * (fb - fc) - (b - c) * (fb - fa)
    if denominator == 0:
        return None
    vertex = b - 0.5 * ((b - a) ** 2 * (fb - fc) - (b - c) ** 2 * (fb - fa)) / denominator
    # A point close to a known one adds nothing, and parabolas alone never close a lopsided bracket.
    is_useful = a < vertex < c and abs(vertex - b) > 0.01 * (c - a) and min(b - a, c - b) > 0.1 * (c - a)
    return vertex if is_useful else None


def _split_golden(low: float, middle: float, high: float) -> float:
    """Returns a position in the wider half of a bracket."""
    return middle + _GOLDEN * (high - middle) if high - middle > middle - low else middle - _GOLDEN * (middle - low)


def _snap(tunable: Tunable, unit: float) -> float:
    return tunable.to_unit(tunable.from_unit(unit))


def _is_new(tunable: Tunable, unit: float, positions: Sequence[float]) -> bool:
    return _compute_distance(_snap(tunable, unit), positions) > 1e-12


def _compute_distance(unit: float, positions: Sequence[float]) -> float:
    return min((abs(unit - position) for position in positions), default=math.inf)
