"""Finds good values with few evaluations: asked for a point, told its score, again and again."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from atoll.mutation.tuner import bracket
from atoll.mutation.tuner.excursions import Excursions, spread
from atoll.mutation.tuner.space import Found, Point, Space, Tunable, Unit, Value

_SURROGATE_LIMIT = 220  # evaluations: beyond, a fit of the surrogate costs more than it finds
_SURROGATE_COLUMNS = 40
_TRIES = 50


class Optimiser:
    """Maximises a score over a space; a function of seed, space and what it was told, in that order.

    The first point is the start, the next ones spread over the space. One number is then bracketed. Several are
    found by a surrogate in a region around the best, and by CMA-ES from there once there are more evaluations
    than a surrogate is good for.
    """

    def __init__(self, space: Space | Sequence[Tunable], seed: int = 0) -> None:
        self.space = space if isinstance(space, Space) else Space(space)
        self._rng = numpy.random.default_rng(seed)
        self._excursions = Excursions(self.space)
        self._units: list[Unit] = []
        self._scores: list[float | None] = []
        self._known: set[Point] = set()
        self._spread = self._spread_points()
        self._wave: _Wave | None = None
        self._seed = seed
        self._best: tuple[float, Point] | None = None
        self.since_best = 0

    @property
    def best(self) -> Found:
        """The best point so far; the start while nothing has a score."""
        score, point = self._best if self._best else (None, self.space.start)
        return Found(point, score, len(self._scores))

    def ask(self) -> Point | None:
        """Returns a point that is worth trying; None when none is left that is new."""
        if not self._scores:
            return self.space.start
        if len(self._known) >= self.space.size:
            return None
        point = self._next()
        for _ in range(_TRIES):
            if point is not None and point not in self._known:
                return point
            near = 0.1 * self._rng.standard_normal(len(self.space))
            point = self.space.from_unit(self.space.to_unit(self.best.point) + near)
        for _ in range(_TRIES):
            point = self.space.from_unit(self._rng.random(len(self.space)))
            if point not in self._known:
                return point
        return None

    def tell(self, point: Point, score: float | None) -> None:
        """Takes in what a point scored; None if it failed. It need not be a point that was asked for."""
        is_scored = score is not None and math.isfinite(score)
        is_better = is_scored and (self._best is None or score > self._best[0])  # type: ignore[operator]
        if is_better:
            assert score is not None
            self._best = (score, point)
        self.since_best = 0 if is_better else self.since_best + 1
        self._units.append(self.space.to_unit(point))
        self._scores.append(score if is_scored else None)
        self._known.add(point)
        if self._wave is not None:
            self._wave.tell(self._units[-1], self._filled()[-1])
        elif not self._spread:
            self._excursions.note(self._units, self._filled())

    def _next(self) -> Point | None:
        if len(self.space) == 1 and not self.space.tunables[0].choices:
            known = [(float(unit[0]), score) for unit, score in zip(self._units, self._filled(), strict=True)]
            place = bracket.next_unit(self.space.tunables[0], known)
            if place is None:
                return None
            step = min(abs(place - unit) for unit, _ in known)
            return (self.space.tunables[0].near_unit(place, 0.05 * step),)
        if self._spread:
            self._excursions.drawn.append(len(self._scores))
            return self.space.from_unit(self._spread.pop(0))
        is_small = len(self._scores) < _SURROGATE_LIMIT and len(self.space) <= _SURROGATE_COLUMNS
        if is_small and self._wave is None:
            return self.space.from_unit(self._excursions.ask(numpy.stack(self._units), self._filled(), self._rng))
        if self._wave is None:
            self._wave = _Wave(self.space.to_unit(self.best.point), len(self.space) <= _SURROGATE_COLUMNS, self._seed)
        return self.space.from_unit(self._wave.ask())

    def _filled(self) -> Unit:
        """Returns all scores, with the worst where there is none."""
        worst = min((score for score in self._scores if score is not None), default=0.0)
        return numpy.array([worst if score is None else score for score in self._scores])

    def _spread_points(self) -> list[Unit]:
        """Returns a Latin hypercube, pulled towards the start: somebody chose that for a reason."""
        drawn = numpy.stack(spread(self.space, self._rng))
        start = self.space.to_unit(self.space.start)
        pull = numpy.where(numpy.arange(len(drawn)) % 2 == 0, 1.0, 0.4)[:, None]
        return list(self.space.rounded(start + pull * (drawn - start), numpy.array(0.02)))


class _Wave:
    """CMA-ES, a point at a time."""

    def __init__(self, mean: Unit, is_near: bool, seed: int) -> None:
        self._seed, self._sigma = seed, 0.08 if is_near else 0.25
        self._engine = self._made(mean)
        self._asked: list[Unit] = []
        self._told: list[tuple[Unit, float]] = []

    def _made(self, mean: Unit) -> Any:
        import cmaes  # it loads scipy.stats, half a second that only a long search needs

        bounds = numpy.tile([0.0, 1.0], (len(mean), 1))
        inside = numpy.clip(mean, 1e-3, 1 - 1e-3)
        return cmaes.CMA(mean=inside, sigma=self._sigma, bounds=bounds, seed=self._seed % 2**32)

    def ask(self) -> Unit:
        self._asked.append(self._engine.ask())
        return self._asked[-1]

    def tell(self, unit: Unit, score: float) -> None:
        """Takes in the score of the last point; it lies where it was asked for, before it was snapped."""
        if not self._asked:
            return
        self._told.append((self._asked.pop(), -score))
        self._asked.clear()
        if len(self._told) == self._engine.population_size:
            self._engine.tell(self._told)
            self._told = []
            if self._engine.should_stop():
                self._seed, self._sigma = self._seed + 1, 0.3
                self._engine = self._made(unit)


def maximise(
    fn: Callable[..., float | None], space: Space | Sequence[Tunable], *, budget: int, seed: int = 0, patience: int = 0
) -> Found:
    """Finds values for which a function is high.

    Args:
        fn: Called with one value for each tunable, in their order; None is a failure.
        space: What may change.
        budget: How many calls there may be.
        seed: All dice come from it.
        patience: Stops after so many calls without a new best; 0 never does.
    """
    search = Optimiser(space, seed)
    while search.best.evaluations < budget and not (patience and search.since_best >= patience):
        point = search.ask()
        if point is None:
            break
        search.tell(point, fn(*point))
    return search.best


def minimise(
    fn: Callable[..., float | None], space: Space | Sequence[Tunable], *, budget: int, seed: int = 0, patience: int = 0
) -> Found:
    """Finds values for which a function is low; see `maximise`."""

    def negated(*values: Value) -> float | None:
        score = fn(*values)
        return None if score is None else -score

    found = maximise(negated, space, budget=budget, seed=seed, patience=patience)
    return found._replace(score=None if found.score is None else -found.score)
