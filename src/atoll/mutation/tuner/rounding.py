"""Rounding of found values: readers need no digits that do not change the score."""

import math
from collections.abc import Sequence

from atoll.mutation.tuner.space import BestPoint, Point, Space, count_digits, round_to_digits


class PointRounder:
    """Tries points like the best with rounder numbers, and keeps those that do not score less.

    It first rounds all numbers to one, two or three digits, then each number to its start value or to few digits.

    Attributes:
        point: The roundest point that scores as much as the best.
        score: Its score.
    """

    def __init__(self, space: Space, best: BestPoint) -> None:
        self._space, self.point, self.score = space, best.point, best.score
        indices = [index for index in range(len(space)) if self._count_digits(index) > 1]
        self._plans: list[tuple[tuple[int, ...], int]] = [(tuple(indices), digits) for digits in (1, 2, 3)]
        singles = sorted(indices, key=self._count_digits, reverse=True)
        self._plans += [((index,), digits) for index in singles for digits in (0, 1, 2)]
        self._tried = {best.point}

    def ask(self) -> Point | None:
        """Returns the next point to evaluate; None if nothing is left to round."""
        while self._plans:
            point = self._round_point(*self._plans.pop(0))
            if point not in self._tried and self._cost(point) < self._cost(self.point):
                self._tried.add(point)
                return point
        return None

    def tell(self, point: Point, score: float | None) -> None:
        """Keeps the point if it does not score less."""
        if score is not None and math.isfinite(score) and (self.score is None or score >= self.score):
            self.point, self.score = point, score

    def _round_point(self, indices: Sequence[int], digits: int) -> Point:
        values = list(self.point)
        for index in indices:
            tunable, value = self._space.tunables[index], values[index]
            assert isinstance(value, int | float)
            values[index] = (
                min(max(round_to_digits(value, digits), tunable.low), tunable.high) if digits else tunable.start
            )
        return tuple(values)

    def _cost(self, point: Point) -> int:
        """Returns the number of digits of all values that differ from their start."""
        return sum(self._count_digits(index, point) for index in range(len(point)))

    def _count_digits(self, index: int, point: Point | None = None) -> int:
        tunable, value = self._space.tunables[index], (point or self.point)[index]
        if tunable.choices or tunable.is_integer or value == tunable.start or not isinstance(value, int | float):
            return 0
        return count_digits(value)
