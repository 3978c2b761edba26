"""Round numbers: what a search finds is read by people, and digits that no score asked for tell them nothing."""

import math
from collections.abc import Sequence

from atoll.mutation.tuner.digits import digits_of, rounded
from atoll.mutation.tuner.space import Found, Point, Space


class Rounding:
    """Asks for points like the best one with rounder numbers, and keeps what scores no less.

    First all numbers at one, two or three digits at once, then one after the other at its start or with few digits.

    Attributes:
        point: The roundest point that scores as much as the best.
        score: What it scored.
    """

    def __init__(self, space: Space, found: Found) -> None:
        self._space, self.point, self.score = space, found.point, found.score
        places = [place for place in range(len(space)) if self._num_digits(place) > 1]
        self._plans: list[tuple[tuple[int, ...], int]] = [(tuple(places), digits) for digits in (1, 2, 3)]
        singles = sorted(places, key=self._num_digits, reverse=True)
        self._plans += [((place,), digits) for place in singles for digits in (0, 1, 2)]
        self._tried = {found.point}

    def ask(self) -> Point | None:
        """Returns a point to try; None when nothing is left to round."""
        while self._plans:
            point = self._made(*self._plans.pop(0))
            if point not in self._tried and self._cost(point) < self._cost(self.point):
                self._tried.add(point)
                return point
        return None

    def tell(self, point: Point, score: float | None) -> None:
        """Keeps a point that scores no less."""
        if score is not None and math.isfinite(score) and (self.score is None or score >= self.score):
            self.point, self.score = point, score

    def _made(self, places: Sequence[int], digits: int) -> Point:
        made = list(self.point)
        for place in places:
            each, value = self._space.tunables[place], made[place]
            assert isinstance(value, int | float)
            made[place] = min(max(rounded(value, digits), each.low), each.high) if digits else each.start
        return tuple(made)

    def _cost(self, point: Point) -> int:
        """Returns how many digits a point has beside those that it began with."""
        return sum(self._num_digits(place, point) for place in range(len(point)))

    def _num_digits(self, place: int, point: Point | None = None) -> int:
        each, value = self._space.tunables[place], (point or self.point)[place]
        if each.choices or each.is_whole or value == each.start or not isinstance(value, int | float):
            return 0
        return digits_of(value)
