"""Fits a function that can only be called: by differences, with all its parameters at once.

For code that `parsing` cannot read. It calls foreign code, so it belongs in a sandbox.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize

from atoll.llmsr.fit.data import Array, Data
from atoll.llmsr.fit.fitting import Fitted, Rng, failed

_FIRST_ROWS = 500  # on which starts are followed


def fit_callable(
    fn: Callable[..., Any], data: Data, num_params: int, *, rng: Rng, starts: int = 4, max_evaluations: int = 2000
) -> Fitted:
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
        return failed(f"it has {num_params} parameters, and the data only {data.num_rows} rows", data.num_rows)
    few, last = _Residual(fn, data.subset(_FIRST_ROWS)), _Residual(fn, data)
    ones = np.ones(num_params)
    few.residual(ones)
    if few.complaint is not None:
        return failed(few.complaint, data.num_rows, 1)
    if not num_params:
        return _result(last, ones, starts=0)
    dice = rng if isinstance(rng, np.random.Generator) else np.random.default_rng(rng.getrandbits(64))
    sizes = np.exp(dice.uniform(math.log(0.1), math.log(10.0), (4 * starts, num_params)))
    drawn = [ones, *(sizes * dice.choice([-1.0, 1.0], sizes.shape))]
    finite = [start for start in drawn if math.isfinite(few.loss(start))][:starts]
    found = [few.descend(start, max_evaluations) for start in finite]
    if not found:
        said = f" ({few.error})" if few.error else ""
        return failed(f"no start gives finite values on every row{said}", data.num_rows, few.num_calls)
    best = min(found, key=few.loss)
    place = best if few.data is data or not math.isfinite(last.loss(best)) else last.descend(best, max_evaluations)
    last.num_calls += few.num_calls
    return _result(last, place, len(finite))


def _result(last: "_Residual", place: Array, starts: int) -> Fitted:
    loss, data = last.loss(place), last.data
    if not math.isfinite(loss):
        return failed(last.complaint or "its values are not finite on every row", data.num_rows, last.num_calls)
    params = tuple(place.tolist())
    return Fitted(params, loss, loss / data.variance, data.num_rows, last.num_calls, starts, exact_jacobian=False)


class _Residual:
    """A function on some rows, as MINPACK wants it."""

    def __init__(self, fn: Callable[..., Any], data: Data) -> None:
        self._fn, self.data, self.num_calls = fn, data, 0
        self.complaint: str | None = None
        self.error = ""
        self._bad: Array = np.full(data.num_rows, 1e6 * (math.sqrt(data.variance) + abs(data.mean)))

    def residual(self, params: Array) -> Array:
        self.num_calls += 1
        try:
            with np.errstate(all="ignore"):
                returned = self._fn(*(column.copy() for column in self.data.columns), params.copy())
        except (ArithmeticError, ValueError) as error:
            self.error = f"{type(error).__name__}: {error}"
            return self._bad
        values = np.asarray(returned)
        if values.dtype.kind not in "fiub" or values.shape not in {(), self.data.y.shape}:
            what = f"the shape {values.shape}" if values.dtype.kind in "fiub" else f"{values.dtype.name} values"
            self.complaint = f"it returned {what}, and not one number for each of {self.data.num_rows} rows"
            return self._bad
        found: Array = values.astype(np.float64) - self.data.y
        return found if math.isfinite(found.sum()) else self._bad

    def loss(self, params: Array) -> float:
        found = self.residual(params)
        return math.inf if found is self._bad else float(found @ found) / self.data.num_rows

    def descend(self, start: Array, max_evaluations: int) -> Array:
        found, *_ = optimize.leastsq(
            self.residual, start, full_output=True, ftol=1e-10, xtol=1e-10, maxfev=max_evaluations, factor=10.0
        )
        return np.asarray(found, dtype=np.float64)
