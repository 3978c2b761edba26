"""Variable projection: linear parameters are solved for, and only the others are searched.

The method is that of Golub and Pereyra (1973) with Kaufman's Jacobian (1975). Its gradient is exact, and the terms
that it omits from the Hessian vanish with the residual.
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

_MIN_PIVOT = 1e-5  # of the scaled normal equations; below it too many digits are lost
_WEAK_PIVOT = 1e-2  # below it some digits are lost
_SMALL_RESIDUAL = 1e-8  # of the sum of squares of the target; a smaller residual needs all digits
_MIN_SINGULAR_VALUE = 1e-13  # of the scaled terms, relative to the largest
_RIDGE = 1e-9  # for the comparison of many starts


class Model:
    """Structure of an expression: its linear parameters, and one program for all its terms."""

    def __init__(self, split: algebra.Split) -> None:
        constant_terms = [index for index, term in split.terms.items() if not term.params]
        self.linear = (*constant_terms, *(index for index, term in split.terms.items() if term.params))
        self.num_constant_terms = len(constant_terms)  # terms without a nonlinear parameter; they come first
        self.nonlinear = split.nonlinear
        self.has_remainder = split.remainder is not None
        self.program = Program(*(split.terms[index] for index in self.linear), split.remainder or ZERO)

    def merge_params(self, nonlinear: Sequence[float], linear: Sequence[float], num_params: int) -> tuple[float, ...]:
        """Returns all parameters in the order of their indices; 1 for unused ones."""
        params = [1.0] * num_params
        for index, value in zip((*self.nonlinear, *self.linear), (*nonlinear, *linear), strict=True):
            params[index] = float(value)
        return tuple(params)


class Projection:
    """Model on a set of rows.

    `residual` and `jacobian` are for MINPACK and take only the nonlinear parameters. `jacobian` reuses the values that
    `residual` computed at the same point.
    """

    def __init__(self, model: Model, data: Data) -> None:
        self.model, self.data, self.num_residuals = model, data, 0
        self._bound = model.program.bind(data)
        self._roots = model.program.roots
        self._terms: Array = np.empty((len(model.linear), data.num_rows))
        num_constant = model.num_constant_terms
        for index in range(num_constant):
            self._terms[index] = self._bound[self._roots[index]]
        self._gram: Array = np.empty((len(model.linear),) * 2)
        self._gram[:num_constant, :num_constant] = self._terms[:num_constant] @ self._terms[:num_constant].T
        self._bad_residual: Array = np.full(data.num_rows, 1e6 * (math.sqrt(data.variance) + abs(data.mean)))
        self._point_key: bytes | None = None
        self._values: Values = self._bound
        self._solver: _NormalEquations | _SVDSolver | None = None
        self._residual: Array = self._bad_residual
        self.coefficients: Array = np.zeros(len(model.linear))

    def residual(self, nonlinear: Array) -> Array:
        """Returns model minus target with the best linear parameters; a large residual if it is not finite."""
        point_key = nonlinear.tobytes()
        if point_key != self._point_key:
            self._point_key, self.num_residuals = point_key, self.num_residuals + 1
            self._residual = self._solve(nonlinear.tolist())
        return self._residual

    def loss(self, nonlinear: Array) -> float:
        """Returns the mean squared error; infinite if it is not finite."""
        residual = self.residual(nonlinear)
        return math.inf if residual is self._bad_residual else float(residual @ residual) / self.data.num_rows

    def jacobian(self, nonlinear: Array) -> Array:
        """Returns the derivative of the residual by each nonlinear parameter: parameters by rows."""
        if self.residual(nonlinear) is self._bad_residual:
            return np.zeros((len(nonlinear), self.data.num_rows))
        adjoints = [*self.coefficients.tolist(), 1.0]
        gradients = self.model.program.backward(self._values, adjoints)
        result: Array = np.empty((len(gradients), self.data.num_rows))
        for index, gradient in enumerate(gradients):
            result[index] = gradient
        if not math.isfinite(result.sum()):
            np.nan_to_num(result, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        if self._solver is None:
            return result
        result -= self._solver.project(result)
        return result - self._solver.project(result)  # twice is enough (Kahan); once is not for similar terms

    def _solve(self, nonlinear: Sequence[float]) -> Array:
        self._values = values = self.model.program.forward(self._bound, nonlinear)
        target = self.data.y - values[self._roots[-1]] if self.model.has_remainder else self.data.y
        terms, num_constant = self._terms, self.model.num_constant_terms
        for index in range(num_constant, len(terms)):
            terms[index] = values[self._roots[index]]
        if not len(terms):
            return -target if math.isfinite(target.sum()) else self._bad_residual
        if num_constant < len(terms):
            block = terms[num_constant:] @ terms.T
            self._gram[num_constant:] = block
            self._gram[:, num_constant:] = block.T
        rhs = terms @ target
        if not math.isfinite(rhs @ rhs):
            return self._bad_residual
        self._solver = _NormalEquations.factorize(terms, self._gram) or _SVDSolver(terms)
        self.coefficients = self._solver.solve(rhs, target)
        residual = self.coefficients @ terms - target
        if self._solver.is_weak or residual @ residual < _SMALL_RESIDUAL * (target @ target):
            correction = self._solver.solve(
                terms @ residual, residual
            )  # a second solve on the residual restores digits
            self.coefficients = self.coefficients - correction
            residual = self.coefficients @ terms - target
        return residual


class _NormalEquations:
    """Normal equations with terms scaled to length one, by Cholesky."""

    def __init__(self, terms: Array, scale: Array, factor: Array, is_weak: bool) -> None:
        self._terms, self._scale, self._factor, self.is_weak = terms, scale, factor, is_weak

    @staticmethod
    def factorize(terms: Array, gram: Array) -> "_NormalEquations | None":
        """Returns the factorization; None if the terms are too similar."""
        scale = 1.0 / np.sqrt(gram.diagonal())
        factor, status = lapack.dpotrf(gram * scale * scale[:, None], lower=1, clean=0)
        if status or not (pivot := factor.diagonal().min()) >= _MIN_PIVOT:  # NaN if a term is zero
            return None
        return _NormalEquations(terms, scale, factor, bool(pivot < _WEAK_PIVOT))

    def solve(self, rhs: Array, target: Array) -> Array:
        """Returns the coefficients for `terms @ target = rhs`."""
        solution: Array = lapack.dpotrs(self._factor, rhs * self._scale, lower=1)[0]
        return solution * self._scale

    def project(self, rows: Array) -> Array:
        """Returns the projection of each row on the terms."""
        scaled = (self._terms @ rows.T) * self._scale[:, None]
        solution: Array = lapack.dpotrs(self._factor, scaled, lower=1)[0]
        return (solution * self._scale[:, None]).T @ self._terms


class _SVDSolver:
    """Solver by singular values for similar or too many terms. It returns the shortest solution."""

    is_weak = True

    def __init__(self, terms: Array) -> None:
        lengths = np.sqrt(np.einsum("ij,ij->i", terms, terms))
        self._scale = 1.0 / np.where(lengths > 0.0, lengths, 1.0)
        left, size, right = np.linalg.svd(terms * self._scale[:, None], full_matrices=False)
        is_retained = size > _MIN_SINGULAR_VALUE * size[0]
        self._left, self._size, self._right = left[:, is_retained], size[is_retained], right[is_retained]

    def solve(self, rhs: Array, target: Array) -> Array:
        solution: Array = self._left @ ((self._right @ target) / self._size)
        return solution * self._scale

    def project(self, rows: Array) -> Array:
        projection: Array = (rows @ self._right.T) @ self._right
        return projection


def compute_losses(model: Model, data: Data, starts: Array) -> Array:
    """Returns an approximate projected mean squared error for many starts; infinite if it is not finite."""
    values = model.program.forward(model.program.bind(data), list(starts.T[:, :, None]))
    shape = (len(starts), data.num_rows)
    target = np.broadcast_to(data.y - values[model.program.roots[-1]], shape)
    terms: Array = np.empty((shape[0], len(model.linear), shape[1]))
    for index, slot in enumerate(model.program.roots[:-1]):
        terms[:, index] = values[slot]
    is_bad = ~np.isfinite(terms.sum(axis=(1, 2)) + target.sum(axis=1))
    if is_bad.any():
        terms[is_bad], target = 0.0, np.where(is_bad[:, None], 0.0, target)
    if len(model.linear):
        target = target - _project_target(terms, target)
    mean_squares: Array = np.einsum("ij,ij->i", target, target) / data.num_rows
    mean_squares[is_bad | ~np.isfinite(mean_squares)] = math.inf
    return mean_squares


def _project_target(terms: Array, target: Array) -> Array:
    """Returns the projection of the target on the terms of each start, with a small ridge."""
    lengths = np.sqrt(np.einsum("ijk,ijk->ij", terms, terms))
    scaled = terms / np.where(lengths > 0.0, lengths, 1.0)[:, :, None]
    gram = scaled @ scaled.transpose(0, 2, 1)
    gram += _RIDGE * np.eye(gram.shape[1])
    rhs = scaled @ target[:, :, None]
    solution: Any = np.linalg.solve(np.nan_to_num(gram), np.nan_to_num(rhs))
    return np.asarray((solution.transpose(0, 2, 1) @ scaled)[:, 0])
