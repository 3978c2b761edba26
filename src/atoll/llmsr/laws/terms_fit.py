"""Fits sums of trees: coefficients by linear algebra, inner constants by Levenberg-Marquardt (variable projection)."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from atoll.llmsr.fit.expression import BINARY, UNARY
from atoll.llmsr.fit.lazy_scipy import scipy
from atoll.llmsr.laws.tree import APPLY, Array, Columns, Tree, has_constant, with_constants

_MAX_CACHED = 20_000
_MIN_PIVOT = 1e-9  # of the scaled terms; below it they are too similar
_DAMPING_FACTOR = 8.0
_MAX_PART = 30.0  # of the target: larger parts only cancel each other
_EXACT = 1e-31  # of the variance: rounding only

_BACKWARD_UNARY = {name: op.backward for name, op in UNARY.items()}
_BACKWARD_LEFT = {name: op.backward_left for name, op in BINARY.items()}
_BACKWARD_RIGHT = {name: op.backward_right for name, op in BINARY.items()}


class Sample:
    """Rows to fit: variables, target, and the weight of each row.

    Attributes:
        columns: One row per variable.
        target: Target times weight.
        weights: Derivative of the original target by the target here, so that residuals have the original unit.
        variance: Variance of the original target, by which errors are divided.
    """

    def __init__(self, columns: Columns, target: Array, weights: Array, variance: float) -> None:
        self.columns, self.target, self.weights, self.variance = columns, target * weights, weights, variance
        self.num_rows = len(target)
        self.length = float(np.sqrt(self.target @ self.target)) or 1.0
        self._cache: dict[Tree, Any] = {}

    def evaluate(self, tree: Tree) -> Any:
        """Returns the values of a tree without constants. Results are cached."""
        if tree[0] == "x":
            return self.columns[tree[1]]
        values = self._cache.get(tree)
        if values is None:
            values = tree[1] if tree[0] == "c" else APPLY[tree[0]](*(self.evaluate(part) for part in tree[1:]))
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            self._cache[tree] = values
        return values


class Program:
    """Terms as a list of instructions, for values and derivatives.

    Args:
        terms: The terms.
        sample: The rows.
        is_whole: Every node becomes an instruction. Otherwise a subtree without constants is one cached value.
    """

    def __init__(self, terms: Sequence[Tree], sample: Sample, is_whole: bool = False) -> None:
        self.instructions: list[tuple[str, int, int]] = []
        self.nodes: list[Tree] = []
        self.initial: list[Any] = []
        self.constants: list[float] = []
        self._slots: list[int] = []  # of the constants
        self._sample, self._is_whole = sample, is_whole
        self.roots = [self._compile(term) for term in terms]

    def _compile(self, tree: Tree) -> int:
        instruction, value = ("", -1, -1), None
        if tree[0] == "c":
            instruction = ("c", len(self.constants), -1)
            self.constants.append(tree[1])
        elif tree[0] == "x" or (not self._is_whole and not has_constant(tree)):
            value = self._sample.evaluate(tree)
        else:
            arguments = [self._compile(argument) for argument in tree[1:]]
            instruction = (tree[0], arguments[0], arguments[1] if len(arguments) > 1 else -1)
        self.instructions.append(instruction)
        self.nodes.append(tree)
        self.initial.append(value)
        slot = len(self.instructions) - 1
        if instruction[0] == "c":
            self._slots.append(slot)
        return slot

    def forward(self, constants: Sequence[float]) -> list[Any]:
        """Returns the value of every instruction."""
        values = self.initial.copy()
        for slot, (op, left, right) in enumerate(self.instructions):
            if op == "c":
                values[slot] = constants[left]
            elif op:
                values[slot] = APPLY[op](values[left]) if right < 0 else APPLY[op](values[left], values[right])
        return values

    def backward(self, values: Sequence[Any], adjoints: Sequence[Any]) -> list[Any]:
        """Returns the derivative of a weighted sum of the roots by every instruction; None if there is none."""
        result: list[Any] = [None] * len(values)
        for root, adjoint in zip(self.roots, adjoints, strict=True):
            result[root] = adjoint
        for slot in range(len(values) - 1, -1, -1):
            op, left, right = self.instructions[slot]
            adjoint = result[slot]
            if not op or op == "c" or adjoint is None:
                continue
            if right < 0:
                if (unary := _BACKWARD_UNARY[op]) is not None:
                    result[left] = unary(adjoint, values[left], values[slot])
                continue
            if (backward := _BACKWARD_LEFT[op]) is not None:
                result[left] = backward(adjoint, values[left], values[right], values[slot])
            if (backward := _BACKWARD_RIGHT[op]) is not None:
                result[right] = backward(adjoint, values[left], values[right], values[slot])
        return result

    def get_jacobian(self, derivatives: Sequence[Any], num_rows: int) -> Array:
        """Returns the derivatives by the constants: constants by rows."""
        jacobian = np.empty((len(self.constants), num_rows))
        for index, slot in enumerate(self._slots):
            jacobian[index] = 0.0 if derivatives[slot] is None else derivatives[slot]
        return jacobian


class Solution(NamedTuple):
    """Best linear combination of the terms.

    Attributes:
        coefficients: The offset and one coefficient per term.
        residual: Target minus combination.
        basis: Orthonormal basis of the terms: rows by terms.
        loss: Sum of squares of the residual.
        largest: Length of the largest part of the sum, in lengths of the target.
    """

    coefficients: Array
    residual: Array
    basis: Array
    loss: float
    largest: float


class TermsFit(NamedTuple):
    """Terms with fitted constants, their coefficients (the offset first), and the mean squared error by variance."""

    error: float
    terms: tuple[Tree, ...]
    coefficients: tuple[float, ...]


def make_basis(matrix: Array) -> tuple[Array, Array]:
    """Returns Q (rows by terms) and R (in its upper triangle) of a matrix with one row per term."""
    packed, tau, _, _ = scipy.linalg.lapack.dgeqrf(np.asfortranarray(matrix.T), overwrite_a=1)
    upper = packed[: matrix.shape[0]].copy()
    basis, _, _ = scipy.linalg.lapack.dorgqr(packed, tau, overwrite_a=1)
    return basis, upper


def solve(program: Program, values: Sequence[Any], sample: Sample) -> Solution | None:
    """Solves for the coefficients; None if a term is not finite, or if the terms are too similar."""
    weights = sample.weights
    matrix = np.empty((len(program.roots) + 1, sample.num_rows))
    matrix[0] = weights
    for index, root in enumerate(program.roots, 1):
        matrix[index] = values[root] * weights
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    if not np.isfinite(lengths).all() or lengths.min() < 1e-150 or len(matrix) > sample.num_rows:
        return None
    basis, upper = make_basis(matrix / lengths[:, None])
    if np.abs(upper.diagonal()).min() < _MIN_PIVOT:
        return None
    inner = basis.T @ sample.target
    residual = sample.target - basis @ inner
    correction = basis.T @ residual  # a second projection restores digits
    residual = residual - basis @ correction
    scaled = scipy.linalg.lapack.dtrtrs(upper, inner + correction)[0]
    largest = float(np.abs(scaled).max()) / sample.length
    return Solution(scaled / lengths, residual, basis, float(residual @ residual), largest)


def fit_terms(terms: Sequence[Tree], sample: Sample, steps: int, tolerance: float = 1e-3) -> TermsFit | None:
    """Fits terms with up to `steps` steps, until one lowers the error by less than `tolerance`."""
    program = Program(terms, sample)
    constants = np.array(program.constants)
    values = program.forward(program.constants)
    solution = solve(program, values, sample)
    if solution is None:
        return None
    if len(constants):
        constants, solution = _descend(program, sample, constants, values, solution, steps, tolerance)
    if not math.isfinite(solution.loss) or solution.largest > _MAX_PART:
        return None
    numbers = iter(constants.tolist())
    fitted = tuple(with_constants(term, numbers) for term in terms)
    return TermsFit(solution.loss / sample.num_rows / sample.variance, fitted, tuple(solution.coefficients.tolist()))


def _descend(
    program: Program,
    sample: Sample,
    constants: Array,
    values: list[Any],
    solution: Solution,
    steps: int,
    tolerance: float,
) -> tuple[Array, Solution]:
    """Runs Levenberg-Marquardt steps on the projected residual, with Kaufman's Jacobian."""
    damping = 1e-2
    exact_loss = _EXACT * sample.variance * sample.num_rows
    for _ in range(steps):
        if solution.loss < exact_loss:
            break
        adjoints = [coefficient * sample.weights for coefficient in solution.coefficients[1:]]
        jacobian = program.get_jacobian(program.backward(values, adjoints), sample.num_rows)
        if not math.isfinite(jacobian.sum()):
            break
        jacobian -= (jacobian @ solution.basis) @ solution.basis.T
        hessian, gradient = jacobian @ jacobian.T, jacobian @ solution.residual
        diagonal = hessian.diagonal().copy()
        diagonal = np.maximum(diagonal, max(1e-12 * diagonal.max(), 1e-300))
        for _ in range(4):
            damped = hessian.copy()
            damped.ravel()[:: len(constants) + 1] += damping * diagonal
            _, step, status = scipy.linalg.lapack.dposv(damped, gradient)
            if not status:
                trial = constants + step
                trial_values = program.forward(trial.tolist())
                trial_solution = solve(program, trial_values, sample)
                if trial_solution is not None and trial_solution.loss < solution.loss:
                    break
            damping = max(damping * _DAMPING_FACTOR, 1e-8)
        else:
            break
        gain = (solution.loss - trial_solution.loss) / solution.loss
        constants, values, solution = trial, trial_values, trial_solution
        damping = max(damping / _DAMPING_FACTOR, 1e-14)
        if gain < tolerance:
            break
    return constants, solution
