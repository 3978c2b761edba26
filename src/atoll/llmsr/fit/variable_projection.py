"""Variable projection solves for linear parameters; the others are searched, from start points at the data's scale."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from atoll.llmsr.fit import algebra
from atoll.llmsr.fit.data import Array, Data
from atoll.llmsr.fit.expression import ZERO
from atoll.llmsr.fit.lazy_scipy import scipy
from atoll.llmsr.fit.program import Program, Values

_OFFSETS = {"+", "-", "minimum", "maximum", "<", "<=", ">", ">=", "%", "hypot"}
_PERIODIC = {"sin", "cos", "tan"}
_RANGE_MARGIN = 0.2  # of the range: an offset may be this far outside of the data
_RATE_RANGE = (0.05, 5.0)  # of the inverse scale
_ANGLE_RANGE = (0.3, 30.0)  # radians per standard deviation
_UNSCALED_SHARE = 0.25  # of rates drawn around 1 independent of the data, because laws often have plain numbers
_POWER_RANGE = (-3.0, 3.0)


def draw_starts(program: Program, data: Data, num_starts: int, rng: np.random.Generator) -> Array:
    """Returns starts by parameters, in the order of `program.params`."""
    return _StartSampler(program, data, num_starts, rng).sample()


class _StartSampler:
    def __init__(self, program: Program, data: Data, num_starts: int, rng: np.random.Generator) -> None:
        self._program, self._rng, self._shape = program, rng, (num_starts, 1)
        self._values = program.bind(data)
        self._drawn: dict[int, Array] = {}  # by slot of the parameter
        self._scaled = self._find_scaled()
        self._ranges: dict[int, tuple[float, float]] = {}
        self._periodic = self._find_periodic()

    def sample(self) -> Array:
        self._draw_offsets()
        for (apply, out, left, right), op in zip(self._program.steps, self._program.ops, strict=True):
            if out in self._scaled:
                continue
            for slot, other in ((left, right), (right, left)):
                param = self._find_undrawn(slot)
                if param is not None and (right < 0 or self._find_undrawn(other) is None):
                    self._set_drawn(
                        slot,
                        self._draw_for_operation(op, out, slot == left, None if right < 0 else self._get_value(other)),
                    )
                elif param is not None:
                    self._set_drawn(slot, self._draw_log_uniform(0.1, 10.0))
            arguments = (self._get_value(left),) if right < 0 else (self._get_value(left), self._get_value(right))
            self._values[out] = apply(*arguments)
        for slot in self._program.param_slots:
            if slot not in self._drawn:
                self._drawn[slot] = self._draw_log_uniform(0.1, 10.0)
        return np.concatenate([self._drawn[slot] for slot in self._program.param_slots], axis=1)

    def _find_scaled(self) -> dict[int, tuple[int, float]]:
        """Returns the slots that are a parameter times a number."""
        scaled = {slot: (slot, 1.0) for slot in self._program.param_slots}
        for (_, out, left, right), op in zip(self._program.steps, self._program.ops, strict=True):
            if op == "neg" and left in scaled:
                scaled[out] = (scaled[left][0], -scaled[left][1])
            elif op in {"*", "/"} and left in scaled and (constant := self._get_constant(right)):
                scaled[out] = (scaled[left][0], scaled[left][1] * (constant if op == "*" else 1.0 / constant))
            elif op == "*" and right in scaled and (constant := self._get_constant(left)):
                scaled[out] = (scaled[right][0], scaled[right][1] * constant)
        return scaled

    def _find_periodic(self) -> set[int]:
        """Returns the slots that are used as an angle."""
        periodic: set[int] = set()
        for (_, out, left, right), op in zip(reversed(self._program.steps), reversed(self._program.ops), strict=True):
            if op in _PERIODIC:
                periodic.add(left)
            elif out in periodic and op in {"+", "-", "*", "/", "neg"}:
                periodic.update((left, right))
        return periodic

    def _draw_offsets(self) -> None:
        """Draws the parameters that are added to a column, and those that are added to one of these."""
        links: list[tuple[int, int]] = []
        for (_, _, left, right), op in zip(self._program.steps, self._program.ops, strict=True):
            if op not in _OFFSETS:
                continue
            for slot, other in ((left, right), (right, left)):
                if slot in self._scaled and other in self._scaled:
                    links.append((self._scaled[slot][0], self._scaled[other][0]))
                elif self._find_undrawn(slot) is not None and isinstance(self._values[other], np.ndarray):
                    column = self._values[other]
                    low, high = float(column.min()), float(column.max())
                    if math.isfinite(low) and math.isfinite(high):
                        self._ranges[self._scaled[slot][0]] = (low, high)
                        self._set_drawn(slot, self._draw_offset(low, high, opposite=op == "+"))
        for linked_slot, other in links:
            if linked_slot not in self._drawn and other in self._ranges:
                self._drawn[linked_slot] = self._draw_offset(*self._ranges[other], opposite=False)

    def _draw_for_operation(self, op: str, out: int, is_left: bool, other: Any) -> Array:
        """Returns draws for a parameter that is combined with a value in an operation."""
        if other is None or isinstance(other, tuple):  # alone, or one branch of `where`
            return self._draw_log_uniform(0.1, 3.0)
        if op == "**":
            if is_left:
                return np.abs(self._draw_log_uniform(0.3, 3.0))
            return self._rng.uniform(*_POWER_RANGE, self._shape)
        size, width = _compute_scales(other, self._shape)
        if op == "*":
            kind = self._rng.random(self._shape)
            rate = self._draw_log_uniform(*_RATE_RANGE) / np.where(kind < 0.5, size, width)
            if out in self._periodic:
                rate = np.abs(self._draw_log_uniform(*_ANGLE_RANGE)) / width
            return np.where(kind < 1.0 - _UNSCALED_SHARE, rate, self._draw_log_uniform(0.1, 10.0))
        if op == "/":
            return self._draw_log_uniform(0.1, 10.0) * size
        if op in _OFFSETS and isinstance(other, np.ndarray) and other.shape[-1] > 1:
            low, high = np.min(other, axis=-1, keepdims=True), np.max(other, axis=-1, keepdims=True)
            return np.nan_to_num(self._draw_offset(low, high, opposite=op == "+"), nan=1.0, posinf=1.0, neginf=-1.0)
        return self._draw_log_uniform(0.1, 10.0) * size

    def _draw_offset(self, low: Any, high: Any, *, opposite: bool) -> Array:
        """Returns draws from a slightly wider range; half of them negated if they are added."""
        offsets: Array = low + (high - low) * self._rng.uniform(-_RANGE_MARGIN, 1.0 + _RANGE_MARGIN, self._shape)
        is_negated = self._rng.random(self._shape) < (0.5 if opposite else 0.1)
        return np.where(is_negated, -offsets, offsets)

    def _draw_log_uniform(self, low: float, high: float) -> Array:
        """Returns numbers of both signs whose logarithm is uniform."""
        size = np.exp(self._rng.uniform(math.log(low), math.log(high), self._shape))
        return np.where(self._rng.random(self._shape) < 0.5, -size, size)

    def _set_drawn(self, slot: int, values: Array) -> None:
        param, factor = self._scaled[slot]
        self._drawn[param] = values / factor

    def _find_undrawn(self, slot: int) -> int | None:
        param = self._scaled[slot][0] if slot in self._scaled else None
        return None if param in self._drawn else param

    def _get_value(self, slot: int) -> Any:
        if slot in self._scaled:
            param, factor = self._scaled[slot]
            return self._drawn[param] * factor
        return self._values[slot]

    def _get_constant(self, slot: int) -> float:
        value = self._values[slot]
        return 0.0 if value is None or isinstance(value, np.ndarray) else float(value)


def _compute_scales(value: Any, shape: Sequence[int]) -> tuple[Array, Array]:
    """Returns size and width of the values for each start; 1 if zero or not finite."""
    rows = np.atleast_1d(np.asarray(value, dtype=np.float64))
    count = rows.shape[-1]
    mean, square = rows.sum(axis=-1, keepdims=True) / count, np.einsum("...i,...i", rows, rows)[..., None] / count
    size, width = np.sqrt(square), np.sqrt(np.maximum(square - mean * mean, 0.0))
    size = np.where(np.isfinite(size) & (size > 0.0), size, 1.0)
    width = np.where(np.isfinite(width) & (width > 0.0), width, size)
    return np.broadcast_to(size, shape), np.broadcast_to(width, shape)


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
        factor, status = scipy.linalg.lapack.dpotrf(gram * scale * scale[:, None], lower=1, clean=0)
        if status or not (pivot := factor.diagonal().min()) >= _MIN_PIVOT:  # NaN if a term is zero
            return None
        return _NormalEquations(terms, scale, factor, bool(pivot < _WEAK_PIVOT))

    def solve(self, rhs: Array, target: Array) -> Array:
        """Returns the coefficients for `terms @ target = rhs`."""
        solution: Array = scipy.linalg.lapack.dpotrs(self._factor, rhs * self._scale, lower=1)[0]
        return solution * self._scale

    def project(self, rows: Array) -> Array:
        """Returns the projection of each row on the terms."""
        scaled = (self._terms @ rows.T) * self._scale[:, None]
        solution: Array = scipy.linalg.lapack.dpotrs(self._factor, scaled, lower=1)[0]
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
