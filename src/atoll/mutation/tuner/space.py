"""Tunables (ranges of numbers and choices), their space as a unit cube, and rounding to few digits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray

from atoll import errors


def find_roundest(low: float, high: float) -> float:
    """Returns the number with the fewest digits in an interval; of several, the closest to its middle.

    find_roundest(0.2613, 0.3391) == 0.3
    """
    if low <= 0 <= high:
        return 0.0
    if low == high or not (math.isfinite(low) and math.isfinite(high)):
        return low
    middle = (low + high) / 2
    for power in range(math.floor(math.log10(max(abs(low), abs(high)))), -320, -1):
        candidate = _find_multiple(middle, power)
        if low <= candidate <= high:
            return candidate
    return middle


def count_digits(value: float) -> int:
    """Returns the number of significant digits of a number."""
    return len(f"{abs(value):.12e}".partition("e")[0].replace(".", "").strip("0"))


def round_to_digits(value: float, digits: int) -> float:
    """Returns a number rounded to significant digits."""
    return float(f"{value:.{digits - 1}e}")


def _find_multiple(value: float, power: int) -> float:
    """Returns the closest multiple of a power of ten, parsed from text because 3 * 0.1 is not 0.3."""
    return float(f"{round(value / 10.0**power)}e{power}")


type Value = float | int | str | bool | None
type Point = tuple[Value, ...]
type Unit = NDArray[numpy.float64]  # point of the unit cube

_LOG_RATIO = 1000  # a range of three orders of magnitude uses a logarithmic scale


class BestPoint(NamedTuple):
    """Best point of a search.

    Attributes:
        score: Its score; None if no point had a score.
        evaluations: Number of evaluated points.
    """

    point: Point
    score: float | None
    evaluations: int


@dataclass(frozen=True, slots=True)
class Tunable:
    """One value that may change.

    Attributes:
        name: Its name in messages.
        start: Current value.
        low: Lower bound.
        high: Upper bound.
        is_integer: Whether only integers are allowed.
        choices: Allowed values, instead of a range.
        scale: Absolute values far above it use a logarithmic scale; 0 for a linear scale.

    Raises:
        SetupError: The bounds are reversed or not numbers, or the start is outside of them.
    """

    name: str
    start: Value
    low: float = 0.0
    high: float = 1.0
    is_integer: bool = False
    choices: tuple[Value, ...] = ()
    scale: float = 0.0

    def __post_init__(self) -> None:
        if self.choices:
            if self.start not in self.choices:
                raise errors.SetupError(f"Tunable {self.name} is {self.start!r}. It must be one of {self.choices}.")
            return
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise errors.SetupError(f"Tunable {self.name} goes from {self.low} to {self.high}. Set finite bounds.")
        if self.low > self.high:
            raise errors.SetupError(
                f"Tunable {self.name} has reversed bounds, {self.low:g} to {self.high:g}. Write the lower one first."
            )
        if isinstance(self.start, bool) or not isinstance(self.start, int | float):
            raise errors.SetupError(f"Tunable {self.name} is {self.start!r}. With bounds it must be a number.")
        if not self.low <= self.start <= self.high:
            raise errors.SetupError(
                f"Tunable {self.name} is {self.start:g}, outside of {self.low:g} to {self.high:g}. Widen its bounds."
            )

    @property
    def num_values(self) -> float:
        """Number of different values."""
        if self.choices:
            return len(self.choices)
        if self.low == self.high:
            return 1
        return math.floor(self.high) - math.ceil(self.low) + 1 if self.is_integer else math.inf

    @property
    def is_log(self) -> bool:
        return not self.choices and not self.is_integer and self.low > 0 and self.high / self.low >= _LOG_RATIO

    def to_unit(self, value: Value) -> float:
        """Returns the position of a value between 0 and 1; for discrete values, the middle of its interval."""
        if self.choices:
            return (self.choices.index(value) + 0.5) / len(self.choices)
        assert isinstance(value, int | float)
        if self.is_integer:
            return (value - math.ceil(self.low) + 0.5) / self.num_values
        if self.low == self.high:
            return 0.5
        if self.scale:
            low, high = math.asinh(self.low / self.scale), math.asinh(self.high / self.scale)
            return (math.asinh(value / self.scale) - low) / (high - low)
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def from_unit(self, unit: float) -> Value:
        """Returns the value at a position. Numbers get seven digits, more than a heuristic needs."""
        unit = min(max(unit, 0.0), 1.0)
        if self.choices:
            return self.choices[min(int(unit * len(self.choices)), len(self.choices) - 1)]
        if self.is_integer:
            return math.ceil(self.low) + min(int(unit * self.num_values), int(self.num_values) - 1)
        value = self._scale_unit(unit)
        return min(max(float(f"{value:.7g}"), self.low), self.high)

    def round_near_unit(self, unit: float, slack: float) -> Value:
        """Returns the roundest value within the slack."""
        if slack <= 0 or math.isfinite(self.num_values):
            return self.from_unit(unit)
        low, high = (self._scale_unit(min(max(position, 0.0), 1.0)) for position in (unit - slack, unit + slack))
        return min(max(find_roundest(low, high), self.low), self.high)

    def _scale_unit(self, unit: float) -> float:
        if self.scale:
            low, high = math.asinh(self.low / self.scale), math.asinh(self.high / self.scale)
            return self.scale * math.sinh(low + unit * (high - low))
        if self.is_log:
            return self.low * math.pow(self.high / self.low, unit)
        return self.low + unit * (self.high - self.low)


@dataclass(frozen=True)
class Space:
    """Several tunables as a unit cube."""

    tunables: Sequence[Tunable]
    start: Point = field(init=False)

    def __post_init__(self) -> None:
        if not self.tunables:
            raise errors.SetupError("The space is empty. Declare a tunable, or tune literals.")
        object.__setattr__(self, "start", tuple(tunable.start for tunable in self.tunables))

    def __len__(self) -> int:
        return len(self.tunables)

    @property
    def size(self) -> float:
        """Number of different points."""
        return math.prod(tunable.num_values for tunable in self.tunables)

    def to_unit(self, point: Sequence[Any]) -> Unit:
        return numpy.array([tunable.to_unit(value) for tunable, value in zip(self.tunables, point, strict=True)])

    def from_unit(self, unit: Sequence[float] | Unit) -> Point:
        return tuple(tunable.from_unit(float(value)) for tunable, value in zip(self.tunables, unit, strict=True))

    def snap(self, units: Unit) -> Unit:
        """Returns rows of the unit cube, each moved to the closest valid point."""
        result = numpy.clip(units, 0.0, 1.0)
        for column, tunable in enumerate(self.tunables):
            count = tunable.num_values
            if math.isfinite(count):
                result[:, column] = (numpy.minimum(numpy.floor(result[:, column] * count), count - 1) + 0.5) / count
        return result

    def round_units(self, units: Unit, slack: Unit) -> Unit:
        """Returns rows of the unit cube, moved by at most the slack to values with few digits."""
        moves = numpy.broadcast_to(slack, units.shape)

        def round_value(tunable: Tunable, unit: float, move: float) -> float:
            return tunable.to_unit(tunable.round_near_unit(float(unit), float(move)))

        rows = [list(map(round_value, self.tunables, *row)) for row in zip(units, moves, strict=True)]
        return numpy.array(rows)

    def to_features(self, units: Unit) -> Unit:
        """Returns rows of the unit cube as features for distances. A choice has one column for each option."""
        columns = []
        for column, tunable in enumerate(self.tunables):
            values = units[:, column]
            if len(tunable.choices) > 2:
                index = numpy.minimum((values * len(tunable.choices)).astype(int), len(tunable.choices) - 1)
                columns += list(0.7 * (index[None, :] == numpy.arange(len(tunable.choices))[:, None]))
            else:
                columns.append(values)
        return numpy.stack(columns, axis=1)
