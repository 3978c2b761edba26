"""Checked rows for fitting equations, with a cache of values computed from them."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from atoll import errors
from atoll.llmsr.fit import algebra, expression
from atoll.llmsr.fit.expression import Binary, Constant, Expression, Unary, Variable, Where

type Array = npt.NDArray[np.float64]

_CACHE_BYTES = 64 * 2**20  # cache of values without parameters, per set of rows
_SHUFFLE_SEED = 20240601  # of the order of rows in subsets, the same in every run


class Data:
    """Columns and a target. They must not include rows of a test split.

    Args:
        columns: Names of the columns.
        X: Rows by columns.
        y: The target of each row.

    Raises:
        SetupError: The data has no rows, the shapes disagree, or a value is not finite.
    """

    def __init__(self, columns: Sequence[str], X: npt.ArrayLike, y: npt.ArrayLike) -> None:  # noqa: N803 (as in scikit-learn)
        self.names = tuple(columns)
        table, target = _to_array(X, "X"), _to_array(y, "y")
        _check_shapes(self.names, table, target)
        _check_finite([*self.names, "the target"], [*table.T, target])
        self.columns: tuple[Array, ...] = tuple(np.ascontiguousarray(column) for column in table.T)
        self.y: Array = np.ascontiguousarray(target)
        self.num_rows = len(self.y)
        self.mean = float(self.y.mean())
        # Errors are relative to the variance. A constant target uses its mean square instead.
        self.variance = float(self.y.var()) or float(np.mean(self.y**2)) or 1.0
        self._subsets: dict[int, Data] = {}
        self._cache: dict[Expression, Any] = {}
        self._cache_limit = max(64, _CACHE_BYTES // (8 * self.num_rows))

    @cached_property
    def X(self) -> Array:  # noqa: N802 (as in scikit-learn)
        """The rows as one table."""
        return np.column_stack(self.columns)

    def get_subset(self, num_rows: int) -> "Data":
        """Returns a subset of rows, or all. A smaller subset is part of every larger one."""
        if num_rows >= self.num_rows:
            return self
        if num_rows not in self._subsets:
            rows = self._order[:num_rows]
            self._subsets[num_rows] = Data(self.names, self.X[rows], self.y[rows])
            # Errors on a subset use the variance of all rows, so that they are comparable.
            self._subsets[num_rows].variance = self.variance
        return self._subsets[num_rows]

    @cached_property
    def _order(self) -> npt.NDArray[np.intp]:
        return np.random.default_rng(_SHUFFLE_SEED).permutation(self.num_rows)

    def evaluate(self, node: Expression) -> Any:
        """Returns the values of an expression without parameters: an array, or a number if it has no column.

        The values are cached and shared, so do not change them.
        """
        values = self._cache.get(node)
        if values is None:
            with np.errstate(all="ignore"):
                values = self._evaluate_cached(node)
        return values

    def _evaluate_cached(self, node: Expression) -> Any:
        if isinstance(node, Variable):
            return self.columns[node.index]
        if isinstance(node, Constant):
            return node.value
        values = self._cache.get(node)
        if values is None:
            values = self._apply_operator(node)
            if len(self._cache) >= self._cache_limit:
                self._cache.pop(next(iter(self._cache)), None)  # the oldest entry; another thread may have removed it
            self._cache[node] = values
        return values

    def _apply_operator(self, node: Expression) -> Any:
        match node:
            case Binary(op="**", left=left, right=Constant(value=exponent)):
                product = algebra.make_power(left, exponent)
                return self._evaluate_cached(product) if product else np.power(self._evaluate_cached(left), exponent)
            case Unary(op=op, arg=arg):
                return expression.UNARY[op].apply(self._evaluate_cached(arg))
            case Binary(op=op, left=left, right=right):
                return expression.BINARY[op].apply(self._evaluate_cached(left), self._evaluate_cached(right))
            case Where(arguments=arguments):
                return np.where(*(self._evaluate_cached(argument) for argument in arguments))
        raise TypeError(f"{node} has parameters, so it has no values without them")


def _to_array(values: npt.ArrayLike, label: str) -> Array:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise errors.SetupError(f"{label} is not a table of numbers ({error}). Remove text columns.") from error


def _check_shapes(names: Sequence[str], table: Array, target: Array) -> None:
    if target.ndim != 1 or table.ndim != 2 or len(table) != len(target):
        raise errors.SetupError(
            f"X has the shape {table.shape} and y {target.shape}. X needs rows by columns, y one value per row."
        )
    if not len(target):
        raise errors.SetupError("The data has no rows. Add at least one.")
    if len(names) != table.shape[1]:
        raise errors.SetupError(f"The data has {table.shape[1]} columns and {len(names)} names. Name each column.")
    if len(set(names)) != len(names):
        raise errors.SetupError(f"Two of the columns {', '.join(names)} have the same name. Rename one.")


def _check_finite(names: Sequence[str], columns: Sequence[Array]) -> None:
    for name, column in zip(names, columns, strict=True):
        invalid_rows = np.flatnonzero(~np.isfinite(column))
        if len(invalid_rows):
            others = f" and not finite in {len(invalid_rows) - 1} more" if len(invalid_rows) > 1 else ""
            raise errors.SetupError(
                f"{name} is {column[invalid_rows[0]]} in row {invalid_rows[0]}{others}. Correct or remove the row."
            )
