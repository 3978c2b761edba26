"""Domain of a law: interval proofs that its factors are finite, and checks that the data identifies them."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from atoll.llmsr.laws import law
from atoll.llmsr.laws.law import ABSOLUTE, WITHOUT_CONSTANTS, Columns, Factor

type Interval = tuple[float, float]

_DOMAIN_MARGIN = 1.0  # beyond the data on both sides, in widths of the data
_ZERO_MARGIN = 0.1  # positive variables may fall to this share of their smallest value
_MIN_DENOMINATOR = 0.01
_MAX_EXPONENT = 50.0
_MIN_SPAN = 0.1  # with less variation of the argument, a function is a line or a constant
_MAX_PHASE_STEP, _MAX_ARGUMENT_STEP = 1.6, 3.0  # maximal change of an argument over the widest gap in the data
_MAX_PHASE = 120.0  # radians over the data: a faster wave only fits noise


@dataclass(frozen=True, slots=True)
class Domain:
    """Ranges of the variables.

    Attributes:
        observed: Smallest and largest value in the data.
        declared: Range in which a law must be finite.
        gaps: Widest gap between neighboring values of the data.
    """

    observed: Sequence[Interval]
    declared: Sequence[Interval]
    gaps: Sequence[float]

    @classmethod
    def from_columns(cls, columns: Columns, declared: Sequence[Interval] | None = None) -> Self:
        """Returns the domain of data. The default declared ranges are wider than the data."""
        observed = [(float(column.min()), float(column.max())) for column in columns]
        gaps = [float(np.diff(np.unique(column)).max(initial=0.0)) for column in columns]
        return cls(observed, declared or [_widen(*interval) for interval in observed], gaps)

    def is_safe(self, factor: Factor) -> bool:
        """Returns whether a factor is proven finite in the declared ranges."""
        low, high = _multiply_intervals([self.declared[variable] for variable in factor.variables])
        if factor.fn == "pow":
            return low > 0.0 or high < 0.0 or (factor.power > 0 and (factor.power != 0.5 or low >= 0.0))
        if factor.fn == "ln":
            return low > 0.0
        if factor.fn not in ("rec", "exp"):
            return True
        lowest, highest = _scale_interval(factor, low, high)
        if factor.fn == "exp":
            return highest < _MAX_EXPONENT
        return 1.0 + lowest > _MIN_DENOMINATOR or 1.0 + highest < -_MIN_DENOMINATOR

    def is_identifiable(self, factor: Factor) -> bool:
        """Returns whether the data identifies a factor.

        A kink must be inside of the data, and the argument must vary enough but not too fast for the data.
        """
        if factor.fn in WITHOUT_CONSTANTS:
            return True
        low, high = _multiply_intervals([self.observed[variable] for variable in factor.variables])
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
        lowest, highest = _scale_interval(factor, low, high)
        span = highest - lowest if factor.power == 1 else max(abs(lowest), abs(highest))
        return span >= _MIN_SPAN and (factor.fn not in ("sin", "cos") or span <= _MAX_PHASE)

    def _is_resolved(self, factor: Factor) -> bool:
        """Returns whether a factor changes little between neighboring values: the data cannot show a wave in a gap."""
        if len(factor.variables) > 1:
            return True
        steepness = abs(factor.theta[0]) ** (1.0 / (factor.power or 1.0))
        max_step = _MAX_PHASE_STEP if factor.fn in ("sin", "cos") else _MAX_ARGUMENT_STEP
        return factor.fn == "log" or steepness * self.gaps[factor.variables[0]] <= max_step

    def accepts(self, terms: law.Terms) -> bool:
        """Returns whether every factor is safe and identifiable."""
        return all(self.is_safe(factor) and self.is_identifiable(factor) for term in terms for factor in term)

    def simplify(self, terms: law.Terms) -> law.Terms:
        """Returns a sum in which each factor that is not identifiable is replaced by its simple form on the data."""
        replaced = ([self._replace_factor(factor) for factor in term] for term in terms)
        return law.merge_terms(tuple(itertools.chain.from_iterable(factors)) for factors in replaced)

    def _replace_factor(self, factor: Factor) -> Sequence[Factor]:
        if self.is_identifiable(factor):
            return (factor,)
        if factor.fn != "abs" and not self._is_resolved(factor):
            return ()
        linear = [Factor("pow", (variable,)) for variable in factor.variables]
        if factor.power == ABSOLUTE and factor.fn == "exp":
            low, _ = _multiply_intervals([self.observed[variable] for variable in factor.variables])
            sign = 1.0 if low >= factor.shift else -1.0
            return (Factor("exp", factor.variables, theta=(sign * factor.theta[0],)),)
        if factor.fn == "abs" or (factor.fn in ("sin", "tanh", "log") and factor.power in (1.0, ABSOLUTE)):
            return linear * factor.outer
        if factor.fn in ("sin", "tanh", "log"):
            return [linear_factor._replace(power=factor.power) for linear_factor in linear]
        return ()


def _widen(low: float, high: float) -> Interval:
    width = high - low
    below, above = low - _DOMAIN_MARGIN * width, high + _DOMAIN_MARGIN * width
    if low >= 0.0:
        below = max(below, _ZERO_MARGIN * low)
    if high <= 0.0:
        above = min(above, _ZERO_MARGIN * high)
    return below, above


def _multiply_intervals(intervals: Sequence[Interval]) -> Interval:
    low, high = intervals[0]
    for other in intervals[1:]:
        corners = [left * right for left in (low, high) for right in other]
        low, high = min(corners), max(corners)
    return low, high


def _scale_interval(factor: Factor, low: float, high: float) -> Interval:
    """Returns the interval of k z for a variable in an interval; infinite if it cannot be computed."""
    try:
        ends = _compute_ends(factor, low, high)
    except OverflowError:
        return -math.inf, math.inf
    return (min(ends), max(ends)) if all(map(math.isfinite, ends)) else (-math.inf, math.inf)


def _compute_ends(factor: Factor, low: float, high: float) -> Interval:
    low, high = low - factor.shift, high - factor.shift
    if factor.power not in (1.0, 3.0):
        exponent = factor.power or 1.0
        ends = abs(low) ** exponent, abs(high) ** exponent
        low, high = (0.0 if low <= 0.0 <= high else min(ends)), max(ends)
    elif factor.power == 3.0:
        low, high = low**3, high**3
    scale = factor.theta[0]
    return scale * low, scale * high
