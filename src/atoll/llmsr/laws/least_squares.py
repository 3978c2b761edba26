"""Fits the constants of a law: coefficients by least squares, constants in factors by Levenberg-Marquardt.

This is variable projection with Kaufman's Jacobian (Golub and Pereyra 1973, Kaufman 1975). Every step solves for the
coefficients exactly, so that only the other constants are searched.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from atoll.llmsr.fit.lazy_scipy import scipy
from atoll.llmsr.laws import law
from atoll.llmsr.laws.law import Array, Columns, Factor, compute_argument, evaluate

_MIN_INDEPENDENCE = 1e-11  # a column with a smaller independent share counts as dependent
_MIN_NORM = 1e-150
_EXACT_ERROR = 1e-31
_MAX_TRIES = 6


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Data points: variables by row, the target, and its variance as the scale of errors.

    Attributes:
        noise: Relative deviation of the noise of each row, with a geometric mean of 1; None: the same in all rows.
    """

    columns: Columns
    target: Array
    variance: float
    noise: Array | None = None

    def __len__(self) -> int:
        return len(self.target)

    @property
    def weights(self) -> Array:
        return np.ones(len(self.target)) if self.noise is None else self.noise**-2.0

    def error(self, residual: Array) -> float:
        """Returns the weighted mean square of a residual divided by the variance of the target (NMSE)."""
        with np.errstate(all="ignore"):
            residual = residual if self.noise is None else residual / self.noise
            return float(residual @ residual) / len(self.target) / self.variance

    def select(self, indices: npt.NDArray[np.intp]) -> "Rows":
        """Returns some of the data points. Errors keep the scale of all."""
        noise = None if self.noise is None else self.noise[indices]
        return Rows(np.ascontiguousarray(self.columns[:, indices]), self.target[indices], self.variance, noise)


class Fit(NamedTuple):
    """Fitted law and its error on the fitted rows."""

    law: law.Law
    error: float


class Solution(NamedTuple):
    """Least squares solution: coefficients, residual, and an orthonormal basis of the terms in columns."""

    weights: Array
    residual: Array
    basis: Array


def solve(matrix: Array, target: Array) -> Solution | None:
    """Solves for the coefficients of terms (one per row); returns None if the terms are dependent."""
    norms = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    if not (np.isfinite(norms).all() and norms.min(initial=1.0) > _MIN_NORM):
        return None
    basis, triangle = _compute_qr((matrix / norms[:, None]).T)
    if np.abs(np.diag(triangle)).min(initial=1.0) < _MIN_INDEPENDENCE:
        return None
    projected = basis.T @ target
    residual = target - basis @ projected
    correction = basis.T @ residual  # the first projection leaves rounding errors of the size of the target
    weights = scipy.linalg.lapack.dtrtrs(triangle, projected + correction)[0] / norms
    return Solution(weights, residual - basis @ correction, basis)


def _compute_qr(columns: Array) -> tuple[Array, Array]:
    """Returns the QR decomposition by LAPACK, which has less overhead than numpy for few columns."""
    packed, tau, _, _ = scipy.linalg.lapack.dgeqrf(columns, overwrite_a=1)
    triangle = np.triu(packed[: columns.shape[1]])
    basis, _, _ = scipy.linalg.lapack.dorgqr(packed, tau, overwrite_a=1)
    return basis, triangle


class _Point(NamedTuple):
    """One point of the search: constants, solution, and the slopes of the terms."""

    theta: Array
    solution: Solution
    slopes: Array
    squares: float


class _TunableFactor(NamedTuple):
    """Factor with constants: its input, and the position of its constants among all."""

    factor: Factor
    argument: Array
    start: int
    end: int


class _PreparedTerms:
    """Sum of terms prepared for many steps. Factors without constants are computed once."""

    def __init__(self, terms: law.Terms, rows: Rows) -> None:
        self.terms, self._rows = terms, rows
        self._parts: list[tuple[Array, list[_TunableFactor]]] = []
        owners: list[int] = []
        for index, term in enumerate(terms):
            fixed_product = law.compute_term_values(tuple(factor for factor in term if not factor.theta), rows.columns)
            tunable_factors: list[_TunableFactor] = []
            for factor in term:
                if factor.theta:
                    start = len(owners)
                    owners += [index] * len(factor.theta)
                    argument = compute_argument(factor, rows.columns)
                    tunable_factors.append(_TunableFactor(factor, argument, start, len(owners)))
            self._parts.append((fixed_product, tunable_factors))
        self.owners = np.array(owners, dtype=np.intp)

    def solve_at(self, theta: Array) -> _Point | None:
        """Solves for the coefficients at given constants; None if the terms are dependent or not finite."""
        matrix, slopes = np.empty((len(self._parts), len(self._rows))), np.empty((len(theta), len(self._rows)))
        values = theta.tolist()
        for index, (fixed_product, tunable_factors) in enumerate(self._parts):
            matrix[index] = (
                _evaluate_term(fixed_product, tunable_factors, values, slopes) if tunable_factors else fixed_product
            )
        solution = solve(matrix, self._rows.target)
        if solution is None:
            return None
        squares = float(solution.residual @ solution.residual)
        return _Point(theta, solution, slopes, squares) if math.isfinite(squares) else None


def _evaluate_term(
    fixed_product: Array, tunable_factors: Sequence[_TunableFactor], theta: list[float], slopes: Array
) -> Array:
    """Returns the values of a term and writes its slopes into `slopes`."""
    evaluated = [evaluate(item.factor, theta[item.start : item.end], item.argument) for item in tunable_factors]
    prefix_products, product = list[Array](), fixed_product
    for value, _ in evaluated:
        prefix_products.append(product)
        product = product * value
    suffix_product: Array | None = None
    for factor, prefix_product, (value, factor_slopes) in zip(
        reversed(tunable_factors), reversed(prefix_products), reversed(evaluated), strict=True
    ):
        other_factors = prefix_product if suffix_product is None else prefix_product * suffix_product
        for index, slope in enumerate(factor_slopes, factor.start):
            slopes[index] = other_factors * slope
        suffix_product = value if suffix_product is None else suffix_product * value
    return product


def fit(terms: law.Terms, rows: Rows, *, steps: int = 10, tolerance: float = 1e-4) -> Fit | None:
    """Fits all constants, starting from those inside the factors.

    Args:
        terms: The law without coefficients.
        rows: The rows to fit.
        steps: Maximal number of steps for the constants in factors.
        tolerance: Smallest relative gain of a step before the fit ends.

    Returns:
        The law, or None if its terms are not finite or dependent.
    """
    with np.errstate(all="ignore"):
        if not terms:
            return Fit(law.Law((), ()), rows.error(rows.target))
        if not law.collect_theta(terms).size:
            solution = solve(law.build_design_matrix(terms, rows.columns), rows.target)
            return None if solution is None else _make_fit(terms, solution, rows)
        prepared = _PreparedTerms(terms, rows)
        point = prepared.solve_at(law.collect_theta(terms))
        if point is None:
            return None
        point = _descend(prepared, point, _EXACT_ERROR * rows.variance * len(rows), steps, tolerance)
        return _make_fit(law.with_theta(terms, point.theta), point.solution, rows)


def _descend(prepared: _PreparedTerms, point: _Point, floor: float, steps: int, tolerance: float) -> _Point:
    damping = 1e-2
    for _ in range(steps):
        if point.squares <= floor:
            break
        next_point, damping = _take_step(prepared, point, damping)
        if next_point is None:
            break
        gain = (point.squares - next_point.squares) / point.squares
        point, damping = next_point, max(damping / 8.0, 1e-15)
        if gain < tolerance:
            break
    return point


def _take_step(prepared: _PreparedTerms, point: _Point, damping: float) -> tuple[_Point | None, float]:
    solution = point.solution
    jacobian = point.slopes * solution.weights[prepared.owners][:, None]
    jacobian = jacobian - (jacobian @ solution.basis) @ solution.basis.T
    gradient, curvature = jacobian @ solution.residual, jacobian @ jacobian.T
    if not np.isfinite(curvature).all():
        return None, damping
    diagonal = np.diag(curvature)
    diagonal = np.maximum(diagonal, max(1e-14 * float(diagonal.max()), 1e-300))
    for _ in range(_MAX_TRIES):
        try:
            change = np.linalg.solve(curvature + np.diag(damping * diagonal), gradient)
        except np.linalg.LinAlgError:
            damping = damping * 10.0 + 1e-8
            continue
        next_point = prepared.solve_at(point.theta + change)
        if next_point is not None and next_point.squares < point.squares:
            return next_point, damping
        damping = max(damping * 6.0, 1e-9)
    return None, damping


def _make_fit(terms: law.Terms, solution: Solution, rows: Rows) -> Fit:
    return Fit(law.Law(terms, tuple(solution.weights.tolist())), rows.error(solution.residual))
