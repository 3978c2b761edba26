"""Black-box optimizer for few evaluations, with an ask-and-tell interface."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from atoll.mutation.tuner import search_regions
from atoll.mutation.tuner.search_regions import RegionScheduler, draw_latin_hypercube
from atoll.mutation.tuner.space import BestPoint, Point, Space, Tunable, Unit, Value

_SURROGATE_LIMIT = 220  # evaluations after which fitting the surrogate costs more than it gains
_SURROGATE_COLUMNS = 40
_MAX_TRIES = 50


class Optimizer:
    """Maximizes a score over a space. Seed, space and the scores it was told determine its points.

    The first point is the start; the next ones are spread over the space. Then a single number is bracketed. Several
    numbers are searched by a surrogate in a region around the best, and after many evaluations by CMA-ES from there.
    """

    def __init__(self, space: Space | Sequence[Tunable], seed: int = 0) -> None:
        self.space = space if isinstance(space, Space) else Space(space)
        self._rng = numpy.random.default_rng(seed)
        self._regions = RegionScheduler(self.space)
        self._units: list[Unit] = []
        self._scores: list[float | None] = []
        self._known_points: set[Point] = set()
        self._initial_points = self._draw_initial_points()
        self._cma: _CMASearch | None = None
        self._seed = seed
        self._best: tuple[float, Point] | None = None
        self.since_best = 0

    @property
    def best(self) -> BestPoint:
        """Best point so far; the start as long as no point has a score."""
        score, point = self._best if self._best else (None, self.space.start)
        return BestPoint(point, score, len(self._scores))

    def ask(self) -> Point | None:
        """Returns the next point to evaluate; None if no new point is left."""
        if not self._scores:
            return self.space.start
        if len(self._known_points) >= self.space.size:
            return None
        point = self._choose_next()
        for _ in range(_MAX_TRIES):
            if point is not None and point not in self._known_points:
                return point
            offset = 0.1 * self._rng.standard_normal(len(self.space))
            point = self.space.from_unit(self.space.to_unit(self.best.point) + offset)
        for _ in range(_MAX_TRIES):
            point = self.space.from_unit(self._rng.random(len(self.space)))
            if point not in self._known_points:
                return point
        return None

    def tell(self, point: Point, score: float | None) -> None:
        """Adds the score of a point, None for a failure. Any point is allowed, not only those of `ask`."""
        is_scored = score is not None and math.isfinite(score)
        is_better = is_scored and (self._best is None or score > self._best[0])  # type: ignore[operator]
        if is_better:
            assert score is not None
            self._best = (score, point)
        self.since_best = 0 if is_better else self.since_best + 1
        self._units.append(self.space.to_unit(point))
        self._scores.append(score if is_scored else None)
        self._known_points.add(point)
        if self._cma is not None:
            self._cma.tell(self._units[-1], self._fill_scores()[-1])
        elif not self._initial_points:
            self._regions.update(self._units, self._fill_scores())

    def _choose_next(self) -> Point | None:
        if len(self.space) == 1 and not self.space.tunables[0].choices:
            units = (float(unit[0]) for unit in self._units)
            observations = list(zip(units, self._fill_scores(), strict=True))
            position = search_regions.choose_next_unit(self.space.tunables[0], observations)
            if position is None:
                return None
            min_distance = min(abs(position - unit) for unit, _ in observations)
            return (self.space.tunables[0].round_near_unit(position, 0.05 * min_distance),)
        if self._initial_points:
            self._regions.drawn_indices.append(len(self._scores))
            return self.space.from_unit(self._initial_points.pop(0))
        is_small = len(self._scores) < _SURROGATE_LIMIT and len(self.space) <= _SURROGATE_COLUMNS
        if is_small and self._cma is None:
            return self.space.from_unit(self._regions.ask(numpy.stack(self._units), self._fill_scores(), self._rng))
        if self._cma is None:
            start, is_small = self.space.to_unit(self.best.point), len(self.space) <= _SURROGATE_COLUMNS
            self._cma = _CMASearch(start, is_small, self._seed)
        return self.space.from_unit(self._cma.ask())

    def _fill_scores(self) -> Unit:
        """Returns all scores; failures get the worst score."""
        worst = min((score for score in self._scores if score is not None), default=0.0)
        return numpy.array([worst if score is None else score for score in self._scores])

    def _draw_initial_points(self) -> list[Unit]:
        """Returns a Latin hypercube, pulled towards the start, which is probably a good value."""
        points = numpy.stack(draw_latin_hypercube(self.space, self._rng))
        start = self.space.to_unit(self.space.start)
        weights = numpy.where(numpy.arange(len(points)) % 2 == 0, 1.0, 0.4)[:, None]
        return list(self.space.round_units(start + weights * (points - start), numpy.array(0.02)))


class _CMASearch:
    """CMA-ES with one point at a time."""

    def __init__(self, mean: Unit, is_local: bool, seed: int) -> None:
        self._seed, self._sigma = seed, 0.08 if is_local else 0.25
        self._strategy = self._make_strategy(mean)
        self._pending: list[Unit] = []
        self._results: list[tuple[Unit, float]] = []

    def _make_strategy(self, mean: Unit) -> Any:
        import cmaes  # it loads scipy.stats, which takes half a second

        bounds = numpy.tile([0.0, 1.0], (len(mean), 1))
        clipped_mean = numpy.clip(mean, 1e-3, 1 - 1e-3)
        return cmaes.CMA(mean=clipped_mean, sigma=self._sigma, bounds=bounds, seed=self._seed % 2**32)

    def ask(self) -> Unit:
        self._pending.append(self._strategy.ask())
        return self._pending[-1]

    def tell(self, unit: Unit, score: float) -> None:
        """Adds the score of the last point, at its position before it was snapped."""
        if not self._pending:
            return
        self._results.append((self._pending.pop(), -score))
        self._pending.clear()
        if len(self._results) == self._strategy.population_size:
            self._strategy.tell(self._results)
            self._results = []
            if self._strategy.should_stop():
                self._seed, self._sigma = self._seed + 1, 0.3
                self._strategy = self._make_strategy(unit)


def maximize(
    fn: Callable[..., float | None], space: Space | Sequence[Tunable], *, budget: int, seed: int = 0, patience: int = 0
) -> BestPoint:
    """Maximizes a function.

    Args:
        fn: Called with one value for each tunable, in order. It returns None for a failure.
        space: The tunables.
        budget: Maximal number of calls.
        seed: Random seed.
        patience: Calls without a new best after which it stops; 0 for never.
    """
    optimizer = Optimizer(space, seed)
    while optimizer.best.evaluations < budget and not (patience and optimizer.since_best >= patience):
        point = optimizer.ask()
        if point is None:
            break
        optimizer.tell(point, fn(*point))
    return optimizer.best


def minimize(
    fn: Callable[..., float | None], space: Space | Sequence[Tunable], *, budget: int, seed: int = 0, patience: int = 0
) -> BestPoint:
    """Minimizes a function; see `maximize`."""

    def negate(*values: Value) -> float | None:
        score = fn(*values)
        return None if score is None else -score

    best = maximize(negate, space, budget=budget, seed=seed, patience=patience)
    return best._replace(score=None if best.score is None else -best.score)
