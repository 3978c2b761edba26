"""Fits a function that can only be called: by differences, with all its parameters at once.

For code that `parsing` cannot read. It calls foreign code, so it belongs in a sandbox.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize

from atoll.llmsr.fit.data import Array, Data
from atoll.llmsr.fit.fitting import FitResult, Rng, make_failed_fit

_FIRST_ROWS = 500  # on which starts are followed


def fit_callable(
    fn: Callable[..., Any], data: Data, num_params: int, *, rng: Rng, num_starts: int = 4, max_evaluations: int = 2000
) -> FitResult:
    """Finds parameters for `fn(*columns, params)`; a failure is a `Fitted` that says why.

    Arithmetic errors and values that are not finite spoil a start and not the function. What else it raises passes.

    Args:
        fn: Takes the columns and an array of parameters; returns one value per row, or one for all.
        data: The rows.
        num_params: How many parameters it is given.
        rng: Draws the starts after the first, which is all ones.
        starts: How many are followed.
        max_evaluations: Of each descent.
    """
    if num_params > data.num_rows:
        return make_failed_fit(f"it has {num_params} parameters, and the data only {data.num_rows} rows", data.num_rows)
    screening, full = _Residual(fn, data.get_subset(_FIRST_ROWS)), _Residual(fn, data)
    ones = np.ones(num_params)
    screening.residual(ones)
    if screening.failure is not None:
        return make_failed_fit(screening.failure, data.num_rows, 1)
    if not num_params:
        return _make_result(full, ones, num_starts=0)
    generator = rng if isinstance(rng, np.random.Generator) else np.random.default_rng(rng.getrandbits(64))
    sizes = np.exp(generator.uniform(math.log(0.1), math.log(10.0), (4 * num_starts, num_params)))
    drawn = [ones, *(sizes * generator.choice([-1.0, 1.0], sizes.shape))]
    finite = [start for start in drawn if math.isfinite(screening.loss(start))][:num_starts]
    points = [screening.descend(start, max_evaluations) for start in finite]
    if not points:
        detail = f" ({screening.error})" if screening.error else ""
        return make_failed_fit(f"no start gives finite values on every row{detail}", data.num_rows, screening.num_calls)
    best = min(points, key=screening.loss)
    point = (
        best if screening.data is data or not math.isfinite(full.loss(best)) else full.descend(best, max_evaluations)
    )
    full.num_calls += screening.num_calls
    return _make_result(full, point, len(finite))


def _make_result(residual: "_Residual", point: Array, num_starts: int) -> FitResult:
    loss, data = residual.loss(point), residual.data
    if not math.isfinite(loss):
        return make_failed_fit(
            residual.failure or "its values are not finite on every row", data.num_rows, residual.num_calls
        )
    params = tuple(point.tolist())
    return FitResult(
        params, loss, loss / data.variance, data.num_rows, residual.num_calls, num_starts, exact_jacobian=False
    )


class _Residual:
    """A function on some rows, as MINPACK wants it."""

    def __init__(self, fn: Callable[..., Any], data: Data) -> None:
        self._fn, self.data, self.num_calls = fn, data, 0
        self.failure: str | None = None
        self.error = ""
        self._bad_residual: Array = np.full(data.num_rows, 1e6 * (math.sqrt(data.variance) + abs(data.mean)))

    def residual(self, params: Array) -> Array:
        self.num_calls += 1
        try:
            with np.errstate(all="ignore"):
                returned = self._fn(*(column.copy() for column in self.data.columns), params.copy())
        except (ArithmeticError, ValueError) as error:
            self.error = f"{type(error).__name__}: {error}"
            return self._bad_residual
        values = np.asarray(returned)
        if values.dtype.kind not in "fiub" or values.shape not in {(), self.data.y.shape}:
            description = f"the shape {values.shape}" if values.dtype.kind in "fiub" else f"{values.dtype.name} values"
            self.failure = f"it returned {description}, and not one number for each of {self.data.num_rows} rows"
            return self._bad_residual
        residual: Array = values.astype(np.float64) - self.data.y
        return residual if math.isfinite(residual.sum()) else self._bad_residual

    def loss(self, params: Array) -> float:
        residual = self.residual(params)
        return math.inf if residual is self._bad_residual else float(residual @ residual) / self.data.num_rows

    def descend(self, start: Array, max_evaluations: int) -> Array:
        solution, *_ = optimize.leastsq(
            self.residual, start, full_output=True, ftol=1e-10, xtol=1e-10, maxfev=max_evaluations, factor=10.0
        )
        return np.asarray(solution, dtype=np.float64)
