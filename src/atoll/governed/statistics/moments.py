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
    squared_deviations: float = 0.0

    @classmethod
    def from_values(cls, values: Iterable[float]) -> Self:
        moments = cls()
        for value in values:
            moments.add(value)
        return moments

    def add(self, value: float) -> None:
        self.count += 1
        delta = value - self.mean
        self.mean += delta / self.count
        self.squared_deviations += delta * (value - self.mean)

    def merge(self, other: "Moments") -> None:
        """Takes in what another one has seen (Chan, Golub and LeVeque, 1979)."""
        if not other.count:
            return
        count, delta = self.count + other.count, other.mean - self.mean
        self.squared_deviations += other.squared_deviations + delta * delta * self.count * other.count / count
        self.mean += delta * other.count / count
        self.count = count

    @property
    def variance(self) -> float:
        """The unbiased variance; 0 with fewer than two values."""
        return self.squared_deviations / (self.count - 1) if self.count > 1 else 0.0

    @property
    def deviation(self) -> float:
        return math.sqrt(self.variance)

    def to_data(self) -> tuple[int, float, float]:
        return (self.count, self.mean, self.squared_deviations)
