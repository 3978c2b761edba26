"""Which region is searched next: the one around the best point, and others while that one stagnates."""

import math

import numpy
from numpy.typing import NDArray

from atoll.mutation.tuner.region import Region
from atoll.mutation.tuner.space import Space, Unit
from atoll.mutation.tuner.surrogate import Surrogate

type Array = NDArray[numpy.float64]

_SLACK = 0.05  # of a step: where it ends matters no more than that, so that it may end on a round number
_MOST = 128  # points that the surrogate knows, the nearest ones: what is farther costs more than it tells
_GAIN = 1e-3  # of the distance from the middling score to the best: less is no progress
_SAME = 0.15  # of each range: points that are as near as this in all of them stand on the same hill
_FIRST, _SHORTEST = 0.3, 0.03  # of an excursion's region: smaller, so that it climbs its own hill and ends soon


class Excursions:
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
        self._surrogate = Surrogate(space.features(space.to_unit(space.start)[None, :]).shape[1])
        self._home, self._away = Region(space), Region(space, _FIRST, _SHORTEST)
        self._limit = 6 + 2 * len(space)
        self._stale, self._mark = 0, -math.inf
        self._is_away = False
        self._climbed: list[Unit] = []
        self._num_begun = 0
        self._idle, self._height = 0, -math.inf  # evaluations of this excursion without progress, and what it reached
        self._members: list[int] = []  # evaluations of this excursion
        self._start = 0  # which evaluation its region began around
        self._pending: list[Unit] = []
        self.drawn: list[int] = []

    def note(self, known: list[Unit], scores: Array) -> None:
        """Learns what the last point scored."""
        last = len(scores) - 1
        is_best = bool((scores[last] > scores[:last]).all())
        self._count(scores)
        if not self._is_away:
            self._home.note(is_best)
            return
        was_pending = last in self.drawn
        is_better = not self._members or scores[last] > max(scores[each] for each in self._members)
        self._members.append(last)
        if is_best:
            self._climbed.append(known[int(numpy.argmax(scores[:last]))])
            self._home, self._stale = Region(self._space), 0
            self._end()
        elif not was_pending:
            self._away.note(is_better)
            self._idle = 0 if is_better and scores[last] > self._height + self._least(scores) else self._idle + 1
            self._height = max(self._height, float(scores[last])) if not self._idle else self._height

    def _count(self, scores: Array) -> None:
        """Counts evaluations without progress."""
        best = float(scores.max())
        if best > self._mark + self._least(scores):
            self._mark, self._stale = best, 0
        else:
            self._stale += 1

    def _least(self, scores: Array) -> float:
        """Returns what is progress at the least."""
        return _GAIN * float(scores.max() - numpy.median(scores))

    def _end(self) -> None:
        self._idle, self._height, self._start = 0, -math.inf, 0
        self._away, self._members, self._pending = Region(self._space, _FIRST, _SHORTEST), [], []

    def ask(self, known: Unit, scores: Array, rng: numpy.random.Generator) -> Unit:
        """Returns the most promising point that is not known."""
        turns = 4 if self._home.num_collapses else 2  # a home that has collapsed has little left to find
        self._is_away = self._stale > self._limit and len(scores) % turns != 0
        if self._is_away and not self._members and not self._pending:
            self._pending = self._drawn_from(known[int(numpy.argmax(scores))], rng)
        if self._is_away and self._pending:
            self.drawn.append(len(scores))
            return self._pending.pop(0)
        centre = self._centre(known, scores) if self._is_away else int(numpy.argmax(scores))
        near = numpy.argsort(((known - known[centre]) ** 2).sum(1), kind="stable")
        if self._is_away:
            near = near[[self._is_new(known[each], known, scores) for each in near]]
        near = near[:_MOST]
        warped = _warped(scores[near])
        self._surrogate.fit(self._space.features(known[near]), warped)
        region = self._away if self._is_away else self._home
        asked = region.ask(self._surrogate, known, centre, float(warped[0]), rng)
        slack = _SLACK * abs(asked - known[centre])
        return numpy.asarray(self._space.rounded(asked[None, :], slack[None, :])[0])

    def _drawn_from(self, best: Unit, rng: numpy.random.Generator) -> list[Unit]:
        """Returns points where hills may be."""
        self._num_begun += 1
        drawn = numpy.stack(spread(self._space, rng))
        if self._num_begun % 2 == 0:
            turns = numpy.concatenate([rng.permutation(len(best)) for _ in range(2 + len(drawn) // len(best))])
            is_moved = numpy.zeros(drawn.shape, dtype=bool)
            for row, count in enumerate(rng.integers(1, 3, len(drawn))):
                is_moved[row, turns[row : row + count]] = True
            drawn = numpy.where(is_moved, drawn, best)
        return list(self._space.rounded(drawn, 0.02 * (drawn != best)))

    def _centre(self, known: Unit, scores: Array) -> int:
        """Returns the middle of the excursion; it may turn out to be over, then of home."""
        pool = [each for each in {*self.drawn, *self._members} if self._is_new(known[each], known, scores)]
        own = max((each for each in self._members if each not in self.drawn), key=lambda at: scores[at], default=None)
        is_spent = self._away.num_collapses > 0 or self._idle > self._limit // 2
        if is_spent or not pool or (own is not None and own not in pool):
            # Where it began leads to a hill that is known now, so that the next one need not begin there.
            self._climbed += [known[each] for each in (self._start, own) if each is not None]
            self._end()
            self._is_away = False
            return int(numpy.argmax(scores))
        if own is None:
            self._start = max(pool, key=lambda each: float(scores[each]))
        return own if own is not None and scores[own] > scores[self._start] else self._start

    def _is_new(self, unit: Unit, known: Unit, scores: Array) -> bool:
        """Says whether a point stands on no hill that was climbed: only of such does an excursion know.

        The many points on top of the best hill would make all the rest look like one plain.
        """
        climbed = numpy.stack([*self._climbed, known[int(numpy.argmax(scores))]])
        return bool(abs(climbed - unit).max(axis=1).min() > _SAME)


def spread(space: Space, rng: numpy.random.Generator) -> list[Unit]:
    """Returns a Latin hypercube: points that share no share of any coordinate."""
    size = len(space)
    count = min(10, 3 + size // 2)
    strata = numpy.stack([rng.permutation(count) for _ in range(size)], axis=1)
    return list((strata + rng.random((count, size))) / count)


def _warped(scores: Array) -> Array:
    """Standardises scores; how bad the bad ones are says nothing about where the best are, so it is cut off."""
    best, middle = scores.max(), numpy.median(scores)
    cut = numpy.maximum(scores, middle - 1.0 * (best - middle))
    spread = cut.std()
    return numpy.asarray((cut - cut.mean()) / (spread if spread > 0 else 1.0))
