"""Variable projection: the linear parameters are solved for, and only the others are searched.

Golub and Pereyra (1973), with Kaufman's Jacobian (1975): its gradient is exact, and what it leaves out of the Hessian
vanishes with the residual.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import lapack

from atoll.llmsr.fit import algebra
from atoll.llmsr.fit.data import Array, Data
from atoll.llmsr.fit.expression import ZERO
from atoll.llmsr.fit.program import Program, Values

_WEAKEST_PIVOT = 1e-5  # of the scaled normal equations; below it they have lost too many digits
_WEAK_PIVOT = 1e-2  # below it they have lost some
_SMALL = 1e-8  # of the target's squares: what is left below it needs all digits
_SMALLEST_SINGULAR = 1e-13  # of the scaled terms, relative to the largest
_RIDGE = 1e-9  # where many starts are only compared


class Model:
    """The shape of an expression: which parameters are linear, and one program for all its terms."""

    def __init__(self, split: algebra.Split) -> None:
        still = [index for index, term in split.terms.items() if not term.params]
        self.linear = (*still, *(index for index, term in split.terms.items() if term.params))
        self.num_still = len(still)  # terms that no nonlinear parameter moves; they come first
        self.nonlinear = split.nonlinear
        self.has_rest = split.rest is not None
        self.program = Program(*(split.terms[index] for index in self.linear), split.rest or ZERO)

    def full(self, nonlinear: Sequence[float], linear: Sequence[float], num_params: int) -> tuple[float, ...]:
        """Returns all parameters in the order of their indices; one that is not used is 1."""
        found = [1.0] * num_params
        for index, value in zip((*self.nonlinear, *self.linear), (*nonlinear, *linear), strict=True):
            found[index] = float(value)
        return tuple(found)


class Projection:
    """A model on some rows.

    `residual` and `jacobian` are made for MINPACK: they take the nonlinear parameters only, and the second finds what
    the first computed at the same place.
    """

    def __init__(self, model: Model, data: Data) -> None:
        self.model, self.data, self.num_residuals = model, data, 0
        self._bound = model.program.bind(data)
        self._roots = model.program.roots
        self._terms: Array = np.empty((len(model.linear), data.num_rows))
        still = model.num_still
        for place in range(still):
            self._terms[place] = self._bound[self._roots[place]]
        self._gram: Array = np.empty((len(model.linear),) * 2)
        self._gram[:still, :still] = self._terms[:still] @ self._terms[:still].T
        self._bad: Array = np.full(data.num_rows, 1e6 * (math.sqrt(data.variance) + abs(data.mean)))
        self._place: bytes | None = None
        self._values: Values = self._bound
        self._solver: _Normal | _Singular | None = None
        self._found: Array = self._bad
        self.coefficients: Array = np.zeros(len(model.linear))

    def residual(self, nonlinear: Array) -> Array:
        """Returns model minus target with the best linear parameters; far off where that is no finite number."""
        place = nonlinear.tobytes()
        if place != self._place:
            self._place, self.num_residuals = place, self.num_residuals + 1
            self._found = self._solved(nonlinear.tolist())
        return self._found

    def loss(self, nonlinear: Array) -> float:
        """Returns the mean squared error, infinite where it is no finite number."""
        found = self.residual(nonlinear)
        return math.inf if found is self._bad else float(found @ found) / self.data.num_rows

    def jacobian(self, nonlinear: Array) -> Array:
        """Returns the derivative of the residual by each nonlinear parameter: parameters by rows."""
        if self.residual(nonlinear) is self._bad:
            return np.zeros((len(nonlinear), self.data.num_rows))
        flows = [*self.coefficients.tolist(), 1.0]
        found = self.model.program.backward(self._values, flows)
        result: Array = np.empty((len(found), self.data.num_rows))
        for place, each in enumerate(found):
            result[place] = each
        if not math.isfinite(result.sum()):
            np.nan_to_num(result, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        if self._solver is None:
            return result
        result -= self._solver.projected(result)
        return result - self._solver.projected(
            result
        )  # twice is enough (Kahan): near terms that are alike, once is not

    def _solved(self, nonlinear: Sequence[float]) -> Array:
        self._values = values = self.model.program.forward(self._bound, nonlinear)
        target = self.data.y - values[self._roots[-1]] if self.model.has_rest else self.data.y
        terms, still = self._terms, self.model.num_still
        for place in range(still, len(terms)):
            terms[place] = values[self._roots[place]]
        if not len(terms):
            return -target if math.isfinite(target.sum()) else self._bad
        if still < len(terms):
            block = terms[still:] @ terms.T
            self._gram[still:] = block
            self._gram[:, still:] = block.T
        wanted = terms @ target
        if not math.isfinite(wanted @ wanted):
            return self._bad
        self._solver = _Normal.of(terms, self._gram) or _Singular(terms)
        self.coefficients = self._solver.solve(wanted, target)
        found = self.coefficients @ terms - target
        if self._solver.is_weak or found @ found < _SMALL * (target @ target):
            again = self._solver.solve(terms @ found, found)  # once more on what is left: the digits that squaring lost
            self.coefficients = self.coefficients - again
            found = self.coefficients @ terms - target
        return found


class _Normal:
    """Normal equations with terms scaled to length one, by Cholesky."""

    def __init__(self, terms: Array, scale: Array, factor: Array, is_weak: bool) -> None:
        self._terms, self._scale, self._factor, self.is_weak = terms, scale, factor, is_weak

    @staticmethod
    def of(terms: Array, gram: Array) -> "_Normal | None":
        """Returns None where the terms are too much alike."""
        scale = 1.0 / np.sqrt(gram.diagonal())
        factor, failed = lapack.dpotrf(gram * scale * scale[:, None], lower=1, clean=0)
        if failed or not (pivot := factor.diagonal().min()) >= _WEAKEST_PIVOT:  # it is NaN where a term is zero
            return None
        return _Normal(terms, scale, factor, bool(pivot < _WEAK_PIVOT))

    def solve(self, wanted: Array, target: Array) -> Array:
        """Returns the coefficients for `terms @ target = wanted`."""
        found: Array = lapack.dpotrs(self._factor, wanted * self._scale, lower=1)[0]
        return found * self._scale

    def projected(self, rows: Array) -> Array:
        """Returns the part of each row that the terms can make."""
        scaled = (self._terms @ rows.T) * self._scale[:, None]
        found: Array = lapack.dpotrs(self._factor, scaled, lower=1)[0]
        return (found * self._scale[:, None]).T @ self._terms


class _Singular:
    """Singular values of terms that are alike, or more than the rows can tell apart; the shortest solution."""

    is_weak = True

    def __init__(self, terms: Array) -> None:
        lengths = np.sqrt(np.einsum("ij,ij->i", terms, terms))
        self._scale = 1.0 / np.where(lengths > 0.0, lengths, 1.0)
        left, size, right = np.linalg.svd(terms * self._scale[:, None], full_matrices=False)
        kept = size > _SMALLEST_SINGULAR * size[0]
        self._left, self._size, self._right = left[:, kept], size[kept], right[kept]

    def solve(self, wanted: Array, target: Array) -> Array:
        found: Array = self._left @ ((self._right @ target) / self._size)
        return found * self._scale

    def projected(self, rows: Array) -> Array:
        found: Array = (rows @ self._right.T) @ self._right
        return found


def losses(model: Model, data: Data, starts: Array) -> Array:
    """Returns the projected mean squared error of many starts at once, roughly; infinite where it is not finite."""
    values = model.program.forward(model.program.bind(data), list(starts.T[:, :, None]))
    shape = (len(starts), data.num_rows)
    target = np.broadcast_to(data.y - values[model.program.roots[-1]], shape)
    terms: Array = np.empty((shape[0], len(model.linear), shape[1]))
    for place, slot in enumerate(model.program.roots[:-1]):
        terms[:, place] = values[slot]
    bad = ~np.isfinite(terms.sum(axis=(1, 2)) + target.sum(axis=1))
    if bad.any():
        terms[bad], target = 0.0, np.where(bad[:, None], 0.0, target)
    if len(model.linear):
        target = target - _fitted(terms, target)
    found: Array = np.einsum("ij,ij->i", target, target) / data.num_rows
    found[bad | ~np.isfinite(found)] = math.inf
    return found


def _fitted(terms: Array, target: Array) -> Array:
    """Returns what the terms of each start make of its target, with a little ridge."""
    lengths = np.sqrt(np.einsum("ijk,ijk->ij", terms, terms))
    scaled = terms / np.where(lengths > 0.0, lengths, 1.0)[:, :, None]
    gram = scaled @ scaled.transpose(0, 2, 1)
    gram += _RIDGE * np.eye(gram.shape[1])
    wanted = scaled @ target[:, :, None]
    found: Any = np.linalg.solve(np.nan_to_num(gram), np.nan_to_num(wanted))
    return np.asarray((found.transpose(0, 2, 1) @ scaled)[:, 0])
