"""Derivatives of measured time series, for laws of the form dx/dt = f(x, ...)."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from atoll import errors
from atoll.llmsr.fit.lazy_scipy import scipy
from atoll.llmsr.laws.law import Array

MIN_ROWS = 12  # of one series
_EDGE_SHARE = 0.02  # of the rows at both ends, where a derivative is least certain
_MIN_EDGE = 2  # rows
_DEGREE = 5
_MAX_PIECES = 200  # of a smoothing spline
_CAUTION = 1.4  # factor of the degrees of freedom: plain cross-validation often smooths too little


@dataclass(frozen=True, slots=True)
class Spline:
    """Spline of one series, as a function of (time - start) / width.

    Attributes:
        freedom: Number of independent values that it has.
    """

    function: Any
    start: float
    width: float
    freedom: float

    def __call__(self, times: Array, nu: int = 0) -> Array:
        """Returns the values, or the derivative of order nu."""
        values: Array = self.function((times - self.start) / self.width, nu=nu) / self.width**nu
        return values


type FitSpline = Callable[[Array, Array], Spline]


def split_series(times: Array) -> Iterator[slice]:
    """Yields the parts of a table in which time increases. A table may have several series, one below the other."""
    starts = [0, *(np.flatnonzero(np.diff(times) <= 0.0) + 1).tolist(), len(times)]
    yield from (slice(start, end) for start, end in itertools.pairwise(starts))


class Derivative(NamedTuple):
    """Smoothed time series and the derivative of one of them, without the rows at both ends of every series.

    Attributes:
        columns: Rows by columns.
        slopes: The derivative.
        uncertainty: Estimated mean squared error of the derivative.
        freedom: Number of independent values of the derivative; smoothed rows depend on each other.
    """

    columns: Array
    slopes: Array
    uncertainty: float
    freedom: float


def differentiate(columns: Sequence[Array], times: Array, target: int, label: str) -> Derivative:
    """Smooths time series as far as their noise requires it, and estimates the derivative of one of them.

    Raises:
        SetupError: A series is too short, or its times do not increase.
    """
    rows: list[Array] = []
    slopes: list[Array] = []
    errors_by_row: list[Array] = []
    freedom = 0.0
    for part in split_series(times):
        count = len(times[part])
        if count < MIN_ROWS:
            raise errors.SetupError(
                f"{label}: a series of increasing times has {count} rows, at line {part.start + 2}. A derivative needs "
                f"at least {MIN_ROWS}. Sort the rows by time, one series below the other."
            )
        methods = [_choose_method(times[part], column[part]) for column in columns]
        fits = [method(times[part], column[part]) for method, column in zip(methods, columns, strict=True)]
        edge = max(_MIN_EDGE, round(_EDGE_SHARE * count))
        inner = times[part][edge : count - edge]
        rows.append(np.column_stack([spline(inner) for spline in fits]))
        slopes.append(fits[target](inner, nu=1))
        freedom += fits[target].freedom
        halves = [
            methods[target](times[part][first::2], columns[target][part][first::2])(inner, nu=1) for first in (0, 1)
        ]
        # Two halves with noise differ by twice the error of both together, but are biased alike. Without noise, half of
        # the points have 2**5 times the error of all.
        share = 1.0 if methods[target] is _smooth else 2.0**-11
        errors_by_row.append(share * (halves[0] - halves[1]) ** 2)
    uncertainty = float(np.mean(np.concatenate(errors_by_row)[1:-1]))
    return Derivative(np.concatenate(rows), np.concatenate(slopes), uncertainty, freedom)


def _choose_method(times: Array, values: Array) -> FitSpline:
    """Returns the method that predicts every second row better: a spline through all points, or a smoothed one."""
    even, odd = slice(None, None, 2), slice(1, -1, 2)
    best: FitSpline = _interpolate
    best_error = np.inf
    for fit in (_interpolate, _smooth):
        predicted = fit(times[even], values[even])(times[odd])
        error = float(np.mean((predicted - values[odd]) ** 2))
        if error < best_error:
            best, best_error = fit, error
    return best


def _interpolate(times: Array, values: Array) -> Spline:
    spline = scipy.interpolate.make_interp_spline(times, values, k=5 if len(times) > 5 else 3)
    return Spline(spline, 0.0, 1.0, len(values))


def _smooth(times: Array, values: Array) -> Spline:
    """Returns a penalized regression spline. Generalized cross-validation chooses how smooth it is."""
    start, width = float(times[0]), float(times[-1] - times[0])
    scaled = (times - start) / width
    num_pieces = min(len(times) // 2, _MAX_PIECES)
    knots = np.concatenate([[0.0] * _DEGREE, np.linspace(0.0, 1.0, num_pieces + 1), [1.0] * _DEGREE])
    basis = scipy.interpolate.BSpline.design_matrix(scaled, knots, _DEGREE)
    gram, moments = (basis.T @ basis).toarray(), basis.T @ values
    differences = np.diff(np.eye(len(gram)), n=3, axis=0)
    penalty = differences.T @ differences
    best, best_score, best_freedom = moments, np.inf, float(len(values))
    for strength in np.trace(gram) / np.trace(penalty) * np.logspace(-10.0, 6.0, 33):
        try:
            factor = scipy.linalg.cho_factor(gram + strength * penalty, check_finite=False)
        except scipy.linalg.LinAlgError:  # a piece without rows needs a stronger penalty
            continue
        coefficients = scipy.linalg.cho_solve(factor, moments)
        freedom = float(np.trace(scipy.linalg.cho_solve(factor, gram)))
        residual = values - basis @ coefficients
        score = float(residual @ residual) / max(len(values) - _CAUTION * freedom, 1e-9) ** 2
        if score < best_score:
            best, best_score, best_freedom = coefficients, score, freedom
    return Spline(scipy.interpolate.BSpline(knots, best, _DEGREE), start, width, best_freedom)
