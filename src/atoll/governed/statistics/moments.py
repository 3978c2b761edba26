"""Count, mean and variance of a stream, in constant memory."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self


@dataclass(slots=True)
class Moments:
    """Running moments by Welford's recurrence, which loses no digits where a sum of squares would.

    Attributes:
        count: How many values were taken.
        mean: Their mean, 0 if there are none.
        squares: The sum of squared distances from the mean.
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        made = cls()
        for value in values:
            made.add(value)
        return made

    def add(self, value: float) -> None:
        self.count += 1
        delta = value - self.mean
        self.mean += delta / self.count
        self.squares += delta * (value - self.mean)

    def merge(self, other: "Moments") -> None:
        """Takes in what another one has seen (Chan, Golub and LeVeque, 1979)."""
        if not other.count:
            return
        count, delta = self.count + other.count, other.mean - self.mean
        self.squares += other.squares + delta * delta * self.count * other.count / count
        self.mean += delta * other.count / count
        self.count = count

    @property
    def variance(self) -> float:
        """The unbiased variance; 0 with fewer than two values."""
        return self.squares / (self.count - 1) if self.count > 1 else 0.0

    @property
    def deviation(self) -> float:
        return math.sqrt(self.variance)

    def to_data(self) -> tuple[int, float, float]:
        return (self.count, self.mean, self.squares)
