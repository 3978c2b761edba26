"""Where a law may be used: proofs by intervals that no factor leaves its domain, and that each one earns its place."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from atoll.llmsr.laws import law
from atoll.llmsr.laws.factor import ABSOLUTE, PLAIN, Columns, Factor

type Interval = tuple[float, float]

_WIDER = 1.0  # ranges beyond the data, in widths of the data, to either side
_NEARER_ZERO = 0.1  # what is positive in the data may become this share of its smallest value, and stays positive
_LEAST_DENOMINATOR = 0.01
_LARGEST_EXPONENT = 50.0
_LEAST_BEND = 0.1  # an argument that varies less makes a function a straight line or a constant
_MOST_TURN, _MOST_RISE = 1.6, 3.0  # of an argument over the widest gap in the data
_MOST_WAVES = 120.0  # radians over the data: more are noise that happens to fit


@dataclass(frozen=True, slots=True)
class Domain:
    """The ranges of the variables: those of the data, and those in which a law must hold.

    Attributes:
        seen: From the smallest to the largest value in the data.
        declared: Where a law must be finite.
        gaps: The widest gap between neighbouring values: what happens inside nobody has seen.
    """

    seen: Sequence[Interval]
    declared: Sequence[Interval]
    gaps: Sequence[float]

    @classmethod
    def of(cls, columns: Columns, declared: Sequence[Interval] | None = None) -> Self:
        """Reads the ranges from data; what is declared beyond them is widened from them where nobody says it."""
        seen = [(float(each.min()), float(each.max())) for each in columns]
        gaps = [float(np.diff(np.unique(each)).max(initial=0.0)) for each in columns]
        return cls(seen, declared or [_widened(*each) for each in seen], gaps)

    def is_safe(self, factor: Factor) -> bool:
        """Proves that a factor is finite wherever the law must hold."""
        low, high = _product([self.declared[each] for each in factor.variables])
        if factor.fn == "pow":
            return low > 0.0 or high < 0.0 or (factor.power > 0 and (factor.power != 0.5 or low >= 0.0))
        if factor.fn == "ln":
            return low > 0.0
        if factor.fn not in ("rec", "exp"):
            return True
        least, most = _scaled(factor, low, high)
        if factor.fn == "exp":
            return most < _LARGEST_EXPONENT
        return 1.0 + least > _LEAST_DENOMINATOR or 1.0 + most < -_LEAST_DENOMINATOR

    def is_telling(self, factor: Factor) -> bool:
        """Says whether a factor is what its name says on the data.

        A kink lies inside of it, an argument varies enough, and not too fast for the data to show it.
        """
        if factor.fn in PLAIN:
            return True
        low, high = _product([self.seen[each] for each in factor.variables])
        if factor.fn == "abs" or factor.power == ABSOLUTE:
            if not low < factor.shift < high:
                return False
            if factor.fn == "abs":
                return True
        if not self._is_resolved(factor):
            return False
        width = high - low
        if factor.is_shifted and not low - width < factor.shift < high + width:
            return False
        least, most = _scaled(factor, low, high)
        span = most - least if factor.power == 1 else max(abs(least), abs(most))
        return span >= _LEAST_BEND and (factor.fn not in ("sin", "cos") or span <= _MOST_WAVES)

    def _is_resolved(self, factor: Factor) -> bool:
        """Says whether a factor stays nearly still between neighbouring values: a wave in a gap is invention."""
        if len(factor.variables) > 1:
            return True
        steepness = abs(factor.theta[0]) ** (1.0 / (factor.power or 1.0))
        at_most = _MOST_TURN if factor.fn in ("sin", "cos") else _MOST_RISE
        return factor.fn == "log" or steepness * self.gaps[factor.variables[0]] <= at_most

    def accepts(self, terms: law.Terms) -> bool:
        """Says whether every factor is safe and telling."""
        return all(self.is_safe(factor) and self.is_telling(factor) for term in terms for factor in term)

    def simplified(self, terms: law.Terms) -> law.Terms:
        """Returns a sum with every factor that is not telling replaced by what it comes to on the data."""
        return law.merged(
            tuple(itertools.chain.from_iterable(self._replacement(factor) for factor in term)) for term in terms
        )

    def _replacement(self, factor: Factor) -> Sequence[Factor]:
        if self.is_telling(factor):
            return (factor,)
        if factor.fn != "abs" and not self._is_resolved(factor):
            return ()
        linear = [Factor("pow", (each,)) for each in factor.variables]
        if factor.power == ABSOLUTE and factor.fn == "exp":
            sign = 1.0 if _product([self.seen[each] for each in factor.variables])[0] >= factor.shift else -1.0
            return (Factor("exp", factor.variables, theta=(sign * factor.theta[0],)),)
        if factor.fn == "abs" or (factor.fn in ("sin", "tanh", "log") and factor.power in (1.0, ABSOLUTE)):
            return linear * factor.outer
        if factor.fn in ("sin", "tanh", "log"):
            return [each._replace(power=factor.power) for each in linear]
        return ()


def _widened(low: float, high: float) -> Interval:
    width = high - low
    below, above = low - _WIDER * width, high + _WIDER * width
    if low >= 0.0:
        below = max(below, _NEARER_ZERO * low)
    if high <= 0.0:
        above = min(above, _NEARER_ZERO * high)
    return below, above


def _product(intervals: Sequence[Interval]) -> Interval:
    low, high = intervals[0]
    for other in intervals[1:]:
        corners = [left * right for left in (low, high) for right in other]
        low, high = min(corners), max(corners)
    return low, high


def _scaled(factor: Factor, low: float, high: float) -> Interval:
    """Returns the interval of k z for a variable in an interval; all numbers where it cannot be computed."""
    try:
        ends = _ends(factor, low, high)
    except OverflowError:
        return -math.inf, math.inf
    return (min(ends), max(ends)) if all(map(math.isfinite, ends)) else (-math.inf, math.inf)


def _ends(factor: Factor, low: float, high: float) -> Interval:
    low, high = low - factor.shift, high - factor.shift
    if factor.power not in (1.0, 3.0):
        exponent = factor.power or 1.0
        ends = abs(low) ** exponent, abs(high) ** exponent
        low, high = (0.0 if low <= 0.0 <= high else min(ends)), max(ends)
    elif factor.power == 3.0:
        low, high = low**3, high**3
    scale = factor.theta[0]
    return scale * low, scale * high
