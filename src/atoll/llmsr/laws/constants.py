"""Constants of a law as a tree, with error bars, and the doubt about a law: noise, laws nearly as good."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from atoll.llmsr.laws import constraints, table, terms_fit, tree
from atoll.llmsr.laws.least_squares import Rows
from atoll.llmsr.laws.tree import Array, Tree
from atoll.llmsr.laws.view_law import AnyLaw

_NUM_RESAMPLES = 40
_MAX_ROWS = 1_000  # of a resample; the error bars are scaled to all rows
_STEPS = 30
_RESAMPLE_STEPS = 4
_TOLERANCE = 1e-9
_MAX_SHARING_NATS = 2.0  # likelihood that one constant for all tables may cost, for each table

type Mask = npt.NDArray[np.bool_]


class ConstantsFit:
    """Fits the constants of a tree to rows. Factors of -1 are signs, not constants."""

    def __init__(self, law_tree: Tree, rows: Rows) -> None:
        sample = terms_fit.Sample(rows.columns, rows.target, np.ones(len(rows)), rows.variance)
        self._program = terms_fit.Program((law_tree,), sample)
        self._rows, self.weights = rows, rows.weights
        self.initial = np.array(self._program.constants)
        self.is_free: Mask = self.initial != -1.0

    def predict(self, values: Array) -> Array:
        """Returns the values of the law."""
        return np.broadcast_to(self._program.forward(values.tolist())[-1], (len(self._rows),))

    def compute_jacobian(self, values: Array) -> Array:
        """Returns the derivatives by the constants: constants by rows."""
        forward = self._program.forward(values.tolist())
        backward = self._program.backward(forward, [np.ones(len(self._rows))])
        return self._program.get_jacobian(backward, len(self._rows))

    def compute_loss(self, values: Array, weights: Array) -> float:
        """Returns the weighted sum of squared residuals; infinity if it is not finite."""
        residual = self._rows.target - self.predict(values)
        loss = float(weights @ (residual * residual))
        return loss if math.isfinite(loss) else math.inf

    def predict_error(self, index: int, value: float, is_free: Mask) -> float:
        """Returns the error (NMSE) if one constant is set and the other free ones are fitted again, to second order."""
        jacobian = self.compute_jacobian(self.initial)[is_free] * np.sqrt(self.weights)
        if not np.isfinite(jacobian).all():
            return math.inf
        position = int(np.count_nonzero(is_free[:index]))
        others = np.delete(jacobian, position, axis=0)
        own = jacobian[position]
        if len(others):
            own = own - others.T @ np.linalg.lstsq(others.T, own, rcond=1e-12)[0]
        step = value - self.initial[index]
        loss = self.compute_loss(self.initial, self.weights) + step * step * float(own @ own)
        return float(loss) / len(self._rows) / self._rows.variance

    def fit(self, start: Array, is_free: Mask, weights: Array, steps: int = _STEPS) -> tuple[Array, float]:
        """Runs Levenberg-Marquardt steps on the free constants. Returns the values and the loss."""
        values, loss, damping = start.copy(), self.compute_loss(start, weights), 1e-3
        if not is_free.any() or loss == math.inf:
            return values, loss
        for _ in range(steps):
            jacobian = self.compute_jacobian(values)[is_free]
            if not np.isfinite(jacobian).all():
                break
            weighted = jacobian * weights
            hessian = weighted @ jacobian.T
            gradient = weighted @ (self._rows.target - self.predict(values))
            scales = np.sqrt(np.maximum(hessian.diagonal(), 1e-300))
            scaled = hessian / np.outer(scales, scales)
            for _ in range(6):
                step = np.linalg.lstsq(scaled + damping * np.eye(len(scales)), gradient / scales, rcond=1e-14)[0]
                trial = values.copy()
                trial[is_free] += step / scales
                trial_loss = self.compute_loss(trial, weights)
                if trial_loss < loss:
                    break
                damping *= 8.0
            else:
                break
            gain = (loss - trial_loss) / loss
            values, loss, damping = trial, trial_loss, max(damping / 8.0, 1e-14)
            if gain < _TOLERANCE or loss == 0.0:
                break
        return values, loss


def _draw_weights(rng: np.random.Generator, count: int) -> Array:
    """Returns how often each row is drawn, with replacement."""
    return np.bincount(rng.integers(count, size=count), minlength=count).astype(np.float64)


def compute_error_bars(law_tree: Tree, rows: Rows) -> list[tuple[float, float]]:
    """Returns every constant of a law with its standard error: the deviation over fits to resampled rows."""
    count = min(len(rows), _MAX_ROWS)
    sample = rows.select(np.linspace(0, len(rows) - 1, count).round().astype(np.intp))
    with np.errstate(all="ignore"):
        fit = ConstantsFit(law_tree, sample)
        if not fit.is_free.any():
            return []
        rng = np.random.default_rng(0)
        fitted, _ = fit.fit(fit.initial, fit.is_free, fit.weights)
        draws = (_draw_weights(rng, count) * fit.weights for _ in range(_NUM_RESAMPLES))
        resampled = [fit.fit(fitted, fit.is_free, weights, _RESAMPLE_STEPS)[0] for weights in draws]
        low, high = np.quantile(resampled, [0.1587, 0.8413], axis=0)  # one standard deviation, without outliers
        errors = 0.5 * (high - low) * math.sqrt(count / len(rows))
    pairs = zip(fit.initial.tolist(), errors.tolist(), fit.is_free, strict=True)
    return [(value, error) for value, error, is_free in pairs if is_free]


class TableConstants(NamedTuple):
    """Law with named constants.

    Attributes:
        text: The law. A constant with the same value in all tables is a number; the others are c0, c1, ...
        values: Values of c0, c1, ... for each table.
        errors: NMSE for each table.
        size: Number of nodes of the law.
    """

    text: str
    values: list[list[float]]
    errors: list[float]
    size: int


def fit_tables(
    law_tree: Tree, tables: Sequence[Rows], starts: Sequence[Sequence[float]], names: Sequence[str]
) -> TableConstants:
    """Fits a law to several tables: constants that may be equal in all tables are, the others differ by table.

    Args:
        law_tree: The law.
        tables: The rows of each table.
        starts: Constants of each table to start from.
        names: Names of the variables.
    """
    with np.errstate(all="ignore"):
        fits = [ConstantsFit(law_tree, rows) for rows in tables]
        weights = [np.ones(len(rows)) for rows in tables]
        results = [
            fit.fit(np.array(start), fit.is_free, ones) for fit, start, ones in zip(fits, starts, weights, strict=True)
        ]
        values, losses = [result[0] for result in results], [result[1] for result in results]
        is_own = fits[0].is_free.copy()
        for index in np.flatnonzero(is_own).tolist():
            is_free = is_own.copy()
            is_free[index] = False
            for shared in _iter_shared_values([float(row[index]) for row in values]):
                trials = [
                    fit.fit(_set_value(row, index, shared), is_free, ones)
                    for fit, row, ones in zip(fits, values, weights, strict=True)
                ]
                if _is_as_good([trial[1] for trial in trials], losses, tables):
                    values, is_own = [trial[0] for trial in trials], is_free
                    break
        errors = [
            rows.error(rows.target - fit.predict(row)) for rows, fit, row in zip(tables, fits, values, strict=True)
        ]
    own: list[int] = np.flatnonzero(is_own).tolist()
    constants = [
        ("x", len(names) + own.index(index)) if is_own[index] else ("c", float(value))
        for index, value in enumerate(values[0])
    ]
    named = tree.merge_factors(tree.simplify(tree.replace_constants(law_tree, iter(constants))))
    text = tree.to_text(named, [*names, *(f"c{position}" for position in range(len(own)))])
    return TableConstants(text, [row[own].tolist() for row in values], errors, tree.compute_size(named))


def _set_value(values: Array, index: int, value: float) -> Array:
    changed = values.copy()
    changed[index] = value
    return changed


def _iter_shared_values(values: Sequence[float]) -> list[float]:
    """Returns candidates for one value in all tables: zero, a simple number near the median, then the median."""
    middle = float(np.median(values))
    return [0.0, float(f"{middle:.2g}"), float(f"{middle:.3g}"), middle]


def _is_as_good(losses: Sequence[float], best: Sequence[float], tables: Sequence[Rows]) -> bool:
    """Returns whether the loss of every table rose by no more than noise explains."""
    for loss, best_loss, rows in zip(losses, best, tables, strict=True):
        scale = rows.variance * len(rows)
        limit = max(best_loss * math.exp(2.0 * _MAX_SHARING_NATS / len(rows)), 1e-20 * scale)
        if not loss <= limit:
            return False
    return True


_BEYOND = 0.5  # widths of the data beyond both ends in which laws are compared
_NUM_STEPS = 81
_VISIBLE = 3.0  # times the noise: a larger difference of two laws can be measured
_MIN_VISIBLE = 0.01  # of the deviation of the target, if the data has no noise
EXTRAPOLATION_MARGIN = 0.1  # widths of the data; rows that were left out at random are often a little outside


class RunnerUp(NamedTuple):
    """Law that is nearly as good as the recommended one, and the measurement that would decide."""

    law: AnyLaw
    error: float
    decide: str


class Doubt(NamedTuple):
    """Doubt about a law.

    Attributes:
        noise: Estimated standard deviation of the noise of the target, if the law is right.
        constants: Constants in the order of the law's tree, each with its standard error.
        runners_up: Other laws, best first.
    """

    noise: float
    constants: list[tuple[float, float]]
    runners_up: list[RunnerUp]


def describe_doubt(
    law: AnyLaw, error: float, others: Sequence[tuple[AnyLaw, float]], train: table.Table, rows: Rows | None = None
) -> Doubt:
    """Returns the doubt about a law.

    Args:
        law: The law.
        error: Its error.
        others: Its runners-up with their errors, best first.
        train: The table.
        rows: The rows of the table with their noise; None: it is the same in all rows.
    """
    law_tree = constraints.to_tree(law, len(train.names))
    bars = [] if law_tree is None else compute_error_bars(law_tree, train.rows if rows is None else rows)
    freedom = max(train.num_independent - len(bars), 1)
    noise = math.sqrt(error * float(train.y.var()) * train.num_independent / freedom)
    runners_up = [
        RunnerUp(other, other_error, find_measurement(law, other, train, noise)) for other, other_error in others
    ]
    return Doubt(noise, bars, runners_up)


def find_measurement(law: AnyLaw, other: AnyLaw, train: table.Table, noise: float) -> str:
    """Returns in words where a measurement would tell two laws apart most easily."""
    visible = max(_VISIBLE * noise, _MIN_VISIBLE * float(train.y.std()))
    best: tuple[float, str] | None = None
    for index, name in enumerate(train.names):
        low, high = float(train.x[:, index].min()), float(train.x[:, index].max())
        width = high - low
        values = np.linspace(low - _BEYOND * width, high + _BEYOND * width, _NUM_STEPS)
        if low >= 0.0:
            values = values[values >= 0.1 * low]
        differs = np.abs(_sweep(law, train, index, values) - _sweep(other, train, index, values)).max(axis=0) > visible
        for value in values[differs]:
            distance = max(value - high, low - value, 0.0) / width
            side = "above" if value > high else "below" if value < low else "near"
            if best is None or distance < best[0]:
                best = distance, f"measure {name} {side} {value:.3g} to decide"
    return best[1] if best else "the two agree within the noise, also beyond the data"


def _sweep(law: AnyLaw, train: table.Table, index: int, values: Array) -> Array:
    """Returns the values of a law along one variable, with the others at three quantiles: quantiles by values."""
    rows = []
    for share in (0.25, 0.5, 0.75):
        columns = np.repeat(np.quantile(train.x, share, axis=0)[:, None], len(values), axis=1)
        columns[index] = values
        rows.append(law.predict(columns))
    return np.array(rows)


def find_extrapolation(x: Array, train: table.Table) -> dict[str, float]:
    """Returns the share of rows outside of the training range, for every variable that has some."""
    low, high = train.x.min(axis=0), train.x.max(axis=0)
    margin = EXTRAPOLATION_MARGIN * (high - low)
    is_outside = (x < low - margin) | (x > high + margin)
    shares = is_outside.mean(axis=0).tolist()
    return {name: share for name, share in zip(train.names, shares, strict=True) if share}
