"""Fits the parameters of an expression: many starts on few rows, the best of them on more, the last one on all."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import numpy.typing as npt
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
_FEW = 8  # starts that are all followed to the end; of more, only those that are ahead after the first steps
_FIRST_STEPS = 10
_MIDDLE_ROWS = 600  # on which the best of them are
_HUNTS = 2  # for the last digits that find nothing, and no more
_IDLE = 1e-7  # standard deviations of the target: parameters that move it by less have stopped to matter
_GOOD_NMSE = 1e-4  # no more rounds below it
_FAIR_NMSE = 0.05  # below it two rounds that find nothing better are enough
_ALIKE = 0.01  # two losses that differ by less are one optimum, found twice: no more rounds either
_PRECISE_NMSE = 1e-6  # below it the data has next to no noise, and the last digits are worth finding
_EXACT_NMSE = 1e-24  # below it there is nothing left to find


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
    rounds: int = 4,
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
        rounds: How often twice as many starts may be followed, while the best is poor; 1 where time counts more.
        max_evaluations: Of the last descent, on all these rows.
    """
    chosen = data if rows is None else data.subset(rows)
    complaint = _complaint(expression, chosen)
    if complaint:
        return failed(complaint, chosen.num_rows)
    with np.errstate(all="ignore"):
        model = Model(algebra.split(expression))
        return _Fit(model, chosen, max(expression.params, default=-1) + 1).run(
            rng, starts, warm, rounds, max_evaluations, rows is None
        )


def _complaint(expression: Expression, data: Data) -> str | None:
    if expression.num_columns > len(data.names):
        return f"it uses column {expression.num_columns - 1}, and the data has 0 to {len(data.names) - 1}"
    if len(expression.params) > data.num_rows:
        return f"it has {len(expression.params)} parameters, and the data only {data.num_rows} rows"
    return None


type Found = list[tuple[float, Array]]  # losses and where they were found, best first


class _Fit:
    """One fit, stage by stage."""

    def __init__(self, model: Model, data: Data, num_params: int) -> None:
        self._model, self._data, self._num_params = model, data, num_params
        self._num_residuals = self._num_starts = 0

    def run(
        self, rng: Rng, starts: int, warm: Sequence[float] | None, rounds: int, max_evaluations: int, is_last: bool
    ) -> Fitted:
        last = Projection(self._model, self._data)
        if not self._model.nonlinear:
            return self._result(last, np.empty(0))
        dice = rng if isinstance(rng, np.random.Generator) else np.random.default_rng(rng.getrandbits(64))
        follow = Projection(self._model, self._data.subset(max(_NEXT_ROWS, 8 * self._num_params)))
        found = self._widened(self._rounds(dice, follow, starts, warm, rounds))
        if is_last and starts:
            found = self._hunted(dice, follow, starts, found)
        if not found:
            return failed("no start gives finite values on every row", self._data.num_rows, self._num_residuals)
        before, place = found[0]
        for _ in range(3):
            loss, place = self._descend(last, place, max_evaluations, 1e-7)
            # Near an exact law every step gains digits; where it does not, there is none.
            if not _EXACT_NMSE < loss / self._data.variance < _PRECISE_NMSE or loss > 0.1 * before:
                break
            before = loss
        return self._result(last, place)

    def _rounds(
        self, dice: np.random.Generator, follow: Projection, starts: int, warm: Sequence[float] | None, rounds: int
    ) -> Found:
        """Follows more and more starts until one is good, one optimum is found twice, or nothing better is found."""
        found: Found = []
        fresh: list[float] = []
        fruitless = 0
        fixed = [np.ones(len(self._model.nonlinear))] if starts > 1 else []  # where the published fitter starts
        if warm is not None:
            fixed.append(np.array([warm[index] for index in self._model.nonlinear], dtype=np.float64))
        for number in range(rounds if len(self._model.nonlinear) > 2 else min(rounds, 2)):
            near = found[:3] if number else []
            idle = [self._idle(follow, found, place) for _, place in near]
            places = fixed + self._picked(dice, starts << number, DRAWS * starts << 2 * number, near, idle)
            more = self._followed(follow, places)
            # Every second start is then one of those places, changed: that it ends there again says nothing.
            fresh += [loss for loss, _ in (more[::2] if near else more)]
            found, fixed = _sorted(found + more)[:8], []
            fruitless = fruitless + 1 if near and found[0][0] > (1.0 - _ALIKE) * near[0][0] else 0
            if fruitless == 2 and found[0][0] < _FAIR_NMSE * self._data.variance:
                break
            if self._is_enough(follow, found, fresh, is_first=not near):
                break
        return found

    def _followed(self, follow: Projection, places: Sequence[Array]) -> Found:
        """Follows some starts to the end, and of many the better ones only; returns them in their order."""
        if len(places) <= _FEW:
            return [self._descend(follow, place, 12 + 4 * len(place)) for place in places]
        found = [self._descend(follow, place, _FIRST_STEPS) for place in places]
        limit = sorted(loss for loss, _ in found)[len(found) // 4]
        return [self._descend(follow, each[1], 12 + 4 * len(each[1])) if each[0] <= limit else each for each in found]

    def _is_enough(self, follow: Projection, found: Found, fresh: Sequence[float], *, is_first: bool) -> bool:
        """Decides whether a good optimum was found, or one was found twice, in which every parameter matters.

        A good one gets a second round for parameters that do not, and no third.
        """
        if not found:
            return False
        is_good = found[0][0] < _GOOD_NMSE * self._data.variance
        limit = (1.0 + _ALIKE) * found[0][0]
        is_fair = found[0][0] < _FAIR_NMSE * self._data.variance
        is_alike = sum(loss <= limit for loss in fresh) > 1 or (is_fair and sum(loss <= limit for loss, _ in found) > 2)
        if is_good and not is_first:
            return True
        return (is_good or is_alike) and not self._idle(follow, found, found[0][1]).any()

    def _idle(self, follow: Projection, found: Found, place: Array) -> npt.NDArray[np.bool_]:
        """Says which parameters have stopped to matter at a place, as in a function that is saturated there.

        One that matters nowhere is not counted: the expression has no use for it, wherever it starts.
        """
        anywhere = np.max([self._reach(follow, each) for _, each in found], axis=0)
        idle: npt.NDArray[np.bool_] = (self._reach(follow, place) < _IDLE) & (anywhere >= _IDLE)
        return idle

    @staticmethod
    def _reach(follow: Projection, place: Array) -> Array:
        """Returns by how much the values move when each parameter moves by its own size."""
        found: Array = np.abs(follow.jacobian(place)).max(axis=1) * np.abs(place)
        return found / math.sqrt(follow.data.variance)

    def _widened(self, found: Found) -> Found:
        """Goes on with the best places on more rows: a poor fit to few rows says little about the others."""
        if not found:
            return found
        projection = Projection(self._model, self._data.subset(_MIDDLE_ROWS))
        kept, num_kept = found[:1], 2 if found[0][0] < _GOOD_NMSE * self._data.variance else 4
        for each in found[1:]:
            if len(kept) < num_kept and each[0] > (1.0 + 1e-3) * kept[-1][0]:
                kept.append(each)
        return _sorted([self._descend(projection, place, 30) for _, place in kept])

    def _hunted(self, dice: np.random.Generator, follow: Projection, starts: int, found: Found) -> Found:
        """Looks for the last digits, where data without noise shows that there may be an exact law.

        There are optima that differ from it in the eighth digit: a function that is saturated everywhere, two that
        share one series. Parameters are drawn anew around the best, first of all those that have stopped to matter.
        """
        fruitless = 0
        while found and fruitless < _HUNTS and found[0][0] > _EXACT_NMSE * self._data.variance:
            best = found[0][1]
            here = follow.loss(best)
            idle = [self._reach(follow, best) < _IDLE]
            if found[0][0] > (_GOOD_NMSE if idle[0].any() else _PRECISE_NMSE) * self._data.variance:
                break
            places = self._picked(dice, 2 * starts, 2 * DRAWS * starts, [(here, best)], idle)
            more = _sorted([self._descend(follow, place, 40, 1e-8) for place in places])
            if more and more[0][0] < 0.1 * here:
                found = self._widened(more)
            else:
                fruitless += 1
        return found

    def _picked(
        self,
        dice: np.random.Generator,
        num_picked: int,
        num_drawn: int,
        near: Found,
        idle: Sequence[npt.NDArray[np.bool_]],
    ) -> list[Array]:
        """Returns the best start of each of some groups, so that they do not all lie in one valley.

        Args:
            dice: Draws them.
            num_picked: How many groups.
            num_drawn: How many starts in all.
            near: Where something was found; half of the starts differ from one of these in some parameters only.
            idle: Which parameters do not matter there: the first to be drawn anew.
        """
        if not num_picked:
            return []
        few = self._data.subset(max(_FIRST_ROWS, 2 * self._num_params))
        drawn = starts.draw(self._model.program, few, num_drawn, dice)
        if near:
            which = dice.integers(len(near), size=num_drawn)
            changed = dice.random(drawn.shape) < 1.0 / 3.0
            stuck = np.array(idle)[which]
            changed[1::4] = np.where(stuck.any(axis=1)[1::4, None], stuck[1::4], changed[1::4])
            changed[::2] = True
            drawn = np.where(changed, drawn, np.array([place for _, place in near])[which])
        found = losses(self._model, few, np.concatenate([drawn, [place for _, place in near]]) if near else drawn)
        for known in found[num_drawn:]:
            found[np.abs(found - known) <= 1e-3 * known] = math.inf  # it is there already
        self._num_residuals += len(found)
        groups = [np.arange(group, num_drawn, num_picked) for group in range(num_picked)]
        return [drawn[group[np.argmin(found[group])]].copy() for group in groups]

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


def _sorted(found: Found) -> Found:
    return sorted((each for each in found if math.isfinite(each[0])), key=lambda each: each[0])
