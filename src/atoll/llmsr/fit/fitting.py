"""Fits the parameters of an expression: many starts on few rows, the best of them on more, the last one on all."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from scipy import optimize

from atoll.llmsr.fit import algebra, starts
from atoll.llmsr.fit.data import Array, Data
from atoll.llmsr.fit.expression import Expression
from atoll.llmsr.fit.program import Program
from atoll.llmsr.fit.projection import Model, Projection, losses

type Rng = Random | np.random.Generator

DRAWS = 16  # starts that are only compared, for each one that is followed
_FIRST_ROWS = 64  # on which starts are compared
_NEXT_ROWS = 160  # on which they are followed
_MIDDLE_ROWS = 600  # on which the best of them are
_ROUNDS = 4  # each with twice the starts of the one before
_GOOD_NMSE = 1e-4  # no more rounds below it
_ALIKE = 0.01  # two losses that differ by less are one optimum, found twice: no more rounds either
_PRECISE_NMSE = 1e-6  # below it the last digits may be worth finding


@dataclass(frozen=True, slots=True)
class Fitted:
    """What became of fitting one expression.

    Attributes:
        params: A number for every index up to the largest; one that is not used is 1.
        mse: The mean squared error on the rows it was fitted to; infinite after a failure.
        nmse: The same over the variance of the target (of all rows).
        rows: How many rows it was fitted to.
        num_residuals: How often the expression was computed, on however many rows.
        num_starts: How many starts were followed.
        exact_jacobian: Whether derivatives came from the expression; else from differences.
        failure: Why there are no parameters, in one sentence.
    """

    params: tuple[float, ...]
    mse: float
    nmse: float
    rows: int
    num_residuals: int
    num_starts: int
    exact_jacobian: bool = True
    failure: str | None = None


def failed(failure: str, rows: int, num_residuals: int = 0, num_starts: int = 0) -> Fitted:
    return Fitted((), math.inf, math.inf, rows, num_residuals, num_starts, failure=failure)


def predict(expression: Expression, params: Sequence[float], X: Array) -> Array:  # noqa: N803 (as in scikit-learn)
    """Returns the values of an expression on other rows; NaN or infinite where it has none."""
    table = np.asarray(X, dtype=np.float64)
    names = [f"x{index}" for index in range(table.shape[1])]
    return Program(expression).values(Data(names, table, np.zeros(len(table))), params)


def fit(
    expression: Expression,
    data: Data,
    *,
    rng: Rng,
    starts: int = 4,
    warm: Sequence[float] | None = None,
    rows: int | None = None,
    max_evaluations: int = 100,
) -> Fitted:
    """Finds the parameters with the smallest squared error; a failure is a `Fitted` that says why.

    Args:
        expression: What is fitted.
        data: The rows.
        rng: Draws the starts.
        starts: How many starts are followed in the first round, out of `DRAWS` times as many; none: the warm one only.
        warm: Parameters that are tried first, by index; those of a parent, say.
        rows: Fits to so many rows only, to screen.
        max_evaluations: Of the last descent, on all these rows.
    """
    chosen = data if rows is None else data.subset(rows)
    complaint = _complaint(expression, chosen)
    if complaint:
        return failed(complaint, chosen.num_rows)
    with np.errstate(all="ignore"):
        model = Model(algebra.split(expression))
        return _Fit(model, chosen, max(expression.params, default=-1) + 1).run(rng, starts, warm, max_evaluations)


def _complaint(expression: Expression, data: Data) -> str | None:
    unknown = [index for index in algebra.variables(expression) if index >= len(data.names)]
    if unknown:
        return f"it uses column {min(unknown)}, and the data has {len(data.names)} ({', '.join(data.names)})"
    if len(expression.params) > data.num_rows:
        return f"it has {len(expression.params)} parameters, and the data only {data.num_rows} rows"
    return None


class _Fit:
    """One fit, stage by stage."""

    def __init__(self, model: Model, data: Data, num_params: int) -> None:
        self._model, self._data, self._num_params = model, data, num_params
        self._num_residuals = self._num_starts = 0

    def run(self, rng: Rng, starts: int, warm: Sequence[float] | None, max_evaluations: int) -> Fitted:
        last = Projection(self._model, self._data)
        if not self._model.nonlinear:
            return self._result(last, np.empty(0))
        dice = rng if isinstance(rng, np.random.Generator) else np.random.default_rng(rng.getrandbits(64))
        found = self._rounds(dice, starts, warm)
        middle = self._data.subset(_MIDDLE_ROWS)
        if middle is not self._data and found:
            projection = Projection(self._model, middle)
            found = sorted((self._descend(projection, place, 30) for _, place in found[:2]), key=lambda each: each[0])
        if not found:
            return failed("no start gives finite values on every row", self._data.num_rows, self._num_residuals)
        place = found[0][1]
        for _ in range(3):
            before, place = self._descend(last, place, max_evaluations, 1e-10)
            if not 0.0 < before / self._data.variance < _PRECISE_NMSE:
                break
        return self._result(last, place)

    def _rounds(
        self, dice: np.random.Generator, starts: int, warm: Sequence[float] | None
    ) -> list[tuple[float, Array]]:
        """Follows more and more starts until one is good or one optimum is found twice; returns them, best first."""
        follow = Projection(self._model, self._data.subset(max(_NEXT_ROWS, 8 * self._num_params)))
        found: list[tuple[float, Array]] = []
        fixed = [] if warm is None else [np.array([warm[index] for index in self._model.nonlinear], dtype=np.float64)]
        for number in range(_ROUNDS if len(self._model.nonlinear) > 2 else 2):
            places = fixed + self._picked(dice, starts << number, DRAWS * starts << 2 * number)
            found += [self._descend(follow, place, 12 + 4 * len(place)) for place in places]
            found = sorted((each for each in found if math.isfinite(each[0])), key=lambda each: each[0])[:8]
            fixed = []
            if found and found[0][0] < _GOOD_NMSE * self._data.variance:
                break
            if len(found) > 1 and found[1][0] <= (1.0 + _ALIKE) * found[0][0]:
                break
        return found

    def _picked(self, dice: np.random.Generator, num_picked: int, num_drawn: int) -> list[Array]:
        """Returns the best start of each of some groups, so that they do not all lie in one valley."""
        if not num_picked:
            return []
        few = self._data.subset(max(_FIRST_ROWS, 2 * self._num_params))
        drawn = starts.draw(self._model.program, few, num_drawn, dice)
        drawn[0] = 1.0  # where the published fitter starts
        found = losses(self._model, few, drawn)
        self._num_residuals += num_drawn
        groups = [np.arange(group, num_drawn, num_picked) for group in range(num_picked)]
        best = [group[np.argmin(found[group])] for group in groups]
        return [drawn[each].copy() for each in best if math.isfinite(found[each])]

    def _descend(
        self, projection: Projection, place: Array, max_evaluations: int, tolerance: float = 1e-4
    ) -> tuple[float, Array]:
        """Follows the valley down from a place with MINPACK; returns the loss and where it is."""
        self._num_starts += 1
        before = projection.num_residuals
        if not math.isfinite(projection.loss(place)):
            return math.inf, place
        found, *_ = optimize.leastsq(
            projection.residual,
            place,
            Dfun=projection.jacobian,
            full_output=True,
            col_deriv=True,
            ftol=tolerance,
            xtol=tolerance * 1e-3,
            gtol=0.0,
            maxfev=max_evaluations,
            factor=10.0,
        )
        self._num_residuals += projection.num_residuals - before
        return projection.loss(found), found

    def _result(self, projection: Projection, place: Array) -> Fitted:
        loss = projection.loss(place)
        if not math.isfinite(loss):
            return failed("its values are not finite on every row", self._data.num_rows, self._num_residuals)
        params = self._model.full(place.tolist(), projection.coefficients.tolist(), self._num_params)
        rows, num_residuals = self._data.num_rows, max(self._num_residuals, 1)
        return Fitted(params, loss, loss / self._data.variance, rows, num_residuals, self._num_starts)
