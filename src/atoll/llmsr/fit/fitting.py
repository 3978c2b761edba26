"""Fits the parameters of an expression: many starts on few rows, the best on more rows, the last on all."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import numpy.typing as npt

from atoll.llmsr.fit import algebra, variable_projection
from atoll.llmsr.fit.data import Array, Data
from atoll.llmsr.fit.expression import Expression
from atoll.llmsr.fit.lazy_scipy import scipy
from atoll.llmsr.fit.program import Program
from atoll.llmsr.fit.variable_projection import Model, Projection, compute_losses

type Rng = Random | np.random.Generator

DRAWS_PER_START = 16  # starts drawn and compared for each start that is followed
_COMPARE_ROWS = 64  # rows on which starts are compared
_DESCENT_ROWS = 160  # rows on which starts are followed
_MAX_FULL_DESCENTS = 8  # of more starts, only those ahead after the first steps are followed to the end
_FIRST_STEPS = 10
_MIDDLE_ROWS = 600  # rows on which the best starts are followed
_MAX_FRUITLESS_HUNTS = 2  # searches for the last digits that may fail
_MIN_EFFECT = 1e-7  # standard deviations of the target: a parameter with less effect is idle
_GOOD_NMSE = 1e-4  # no more rounds below this error
_FAIR_NMSE = 0.05  # below this error, two rounds without improvement are enough
_SAME_LOSS_RATIO = 0.01  # losses that differ by less are the same optimum, so no more rounds
_PRECISE_NMSE = 1e-6  # below this error the data has almost no noise, and the last digits are worth a search
_EXACT_NMSE = 1e-24  # below this error nothing is left to find


@dataclass(frozen=True, slots=True)
class FitResult:
    """Result of fitting one expression.

    Attributes:
        params: A number for every index up to the largest; 1 for unused parameters.
        mse: Mean squared error on the fitted rows; infinite after a failure.
        nmse: Mean squared error divided by the variance of the target on all rows.
        rows: Number of fitted rows.
        num_residuals: Number of evaluations of the expression, on any number of rows.
        num_starts: Number of starts that were followed.
        failure: Reason for a failed fit, in one sentence.
    """

    params: tuple[float, ...]
    mse: float
    nmse: float
    rows: int
    num_residuals: int
    num_starts: int
    failure: str | None = None


def _make_failure(failure: str, rows: int, num_residuals: int = 0, num_starts: int = 0) -> FitResult:
    return FitResult((), math.inf, math.inf, rows, num_residuals, num_starts, failure=failure)


def predict(expression: Expression, params: Sequence[float], X: Array) -> Array:  # noqa: N803 (as in scikit-learn)
    """Returns the values of an expression on other rows; NaN or infinite if undefined."""
    table = np.asarray(X, dtype=np.float64)
    names = [f"x{index}" for index in range(table.shape[1])]
    return Program(expression).evaluate(Data(names, table, np.zeros(len(table))), params)


def fit(
    expression: Expression,
    data: Data,
    *,
    rng: Rng,
    num_starts: int = 4,
    warm_start: Sequence[float] | None = None,
    num_rows: int | None = None,
    rounds: int = 4,
    max_evaluations: int = 100,
) -> FitResult:
    """Finds the parameters with the smallest squared error. A failed fit returns a result with `failure`.

    Args:
        expression: The expression to fit.
        data: The rows.
        rng: Draws the starts.
        num_starts: Starts to follow in the first round, chosen from `DRAWS_PER_START` times as many; 0 for only the
            warm start.
        warm_start: Parameters to try first, by index, for example those of a parent.
        num_rows: Number of rows to fit, for screening.
        rounds: Maximal number of rounds with twice as many starts, while the best is poor; 1 if time matters more.
        max_evaluations: Evaluations of the last descent, on all rows.
    """
    fit_data = data if num_rows is None else data.get_subset(num_rows)
    failure = _find_failure(expression, fit_data)
    if failure:
        return _make_failure(failure, fit_data.num_rows)
    with np.errstate(all="ignore"):
        model = Model(algebra.split(expression))
        fit_run = _FitRun(model, fit_data, max(expression.params, default=-1) + 1)
        return fit_run.run(rng, num_starts, warm_start, rounds, max_evaluations, num_rows is None)


def _find_failure(expression: Expression, data: Data) -> str | None:
    if expression.num_columns > len(data.names):
        return f"it uses column {expression.num_columns - 1}, but the data has columns 0 to {len(data.names) - 1}"
    if len(expression.params) > data.num_rows:
        return f"it has {len(expression.params)} parameters, but the data has only {data.num_rows} rows"
    return None


type Optima = list[tuple[float, Array]]  # losses and their points, best first


class _FitRun:
    """State of one fit."""

    def __init__(self, model: Model, data: Data, num_params: int) -> None:
        self._model, self._data, self._num_params = model, data, num_params
        self._num_residuals = self._num_starts = 0

    def run(
        self,
        rng: Rng,
        num_starts: int,
        warm_start: Sequence[float] | None,
        rounds: int,
        max_evaluations: int,
        is_last: bool,
    ) -> FitResult:
        full_projection = Projection(self._model, self._data)
        if not self._model.nonlinear:
            return self._make_result(full_projection, np.empty(0))
        generator = rng if isinstance(rng, np.random.Generator) else np.random.default_rng(rng.getrandbits(64))
        subset_projection = Projection(self._model, self._data.get_subset(max(_DESCENT_ROWS, 8 * self._num_params)))
        optima = self._run_rounds(generator, subset_projection, num_starts, warm_start, rounds)
        optima = self._refine_on_more_rows(optima)
        if is_last and num_starts:
            optima = self._search_last_digits(generator, subset_projection, num_starts, optima)
        if not optima:
            return _make_failure("no start gives finite values on every row", self._data.num_rows, self._num_residuals)
        previous_loss, point = optima[0]
        for _ in range(3):
            loss, point = self._descend(full_projection, point, max_evaluations, 1e-7)
            # Near an exact law every step gains digits.
            if not _EXACT_NMSE < loss / self._data.variance < _PRECISE_NMSE or loss > 0.1 * previous_loss:
                break
            previous_loss = loss
        return self._make_result(full_projection, point)

    def _run_rounds(
        self,
        rng: np.random.Generator,
        subset_projection: Projection,
        num_starts: int,
        warm_start: Sequence[float] | None,
        rounds: int,
    ) -> Optima:
        """Follows more and more starts until one is good, an optimum repeats, or nothing improves."""
        optima: Optima = []
        new_losses: list[float] = []
        num_fruitless = 0
        # The start of the published fitter.
        fixed_starts = [np.ones(len(self._model.nonlinear))] if num_starts > 1 else []
        if warm_start is not None:
            fixed_starts.append(np.array([warm_start[index] for index in self._model.nonlinear], dtype=np.float64))
        for round_index in range(rounds if len(self._model.nonlinear) > 2 else min(rounds, 2)):
            best_optima = optima[:3] if round_index else []
            idle_masks = [self._find_idle(subset_projection, optima, point) for _, point in best_optima]
            num_picked, num_drawn = num_starts << round_index, DRAWS_PER_START * num_starts << 2 * round_index
            start_points = fixed_starts + self._pick_starts(rng, num_picked, num_drawn, best_optima, idle_masks)
            new_optima = self._descend_all(subset_projection, start_points)
            # Every second start is a changed known optimum, so finding it again means nothing.
            new_losses += [loss for loss, _ in (new_optima[::2] if best_optima else new_optima)]
            optima, fixed_starts = _sort_finite(optima + new_optima)[:8], []
            is_worse = best_optima and optima[0][0] > (1.0 - _SAME_LOSS_RATIO) * best_optima[0][0]
            num_fruitless = num_fruitless + 1 if is_worse else 0
            if num_fruitless == 2 and optima[0][0] < _FAIR_NMSE * self._data.variance:
                break
            if self._is_finished(subset_projection, optima, new_losses, is_first=not best_optima):
                break
        return optima

    def _descend_all(self, subset_projection: Projection, points: Sequence[Array]) -> Optima:
        """Follows starts to the end, or only the better ones of many. Returns them best first."""
        if len(points) <= _MAX_FULL_DESCENTS:
            return [self._descend(subset_projection, point, 12 + 4 * len(point)) for point in points]
        optima = [self._descend(subset_projection, point, _FIRST_STEPS) for point in points]
        limit = sorted(loss for loss, _ in optima)[len(optima) // 4]
        return [
            self._descend(subset_projection, optimum[1], 12 + 4 * len(optimum[1])) if optimum[0] <= limit else optimum
            for optimum in optima
        ]

    def _is_finished(
        self, subset_projection: Projection, optima: Optima, new_losses: Sequence[float], *, is_first: bool
    ) -> bool:
        """Returns whether a good or repeated optimum without idle parameters was found.

        A good optimum with idle parameters gets a second round, but not a third.
        """
        if not optima:
            return False
        is_good = optima[0][0] < _GOOD_NMSE * self._data.variance
        limit = (1.0 + _SAME_LOSS_RATIO) * optima[0][0]
        is_fair = optima[0][0] < _FAIR_NMSE * self._data.variance
        is_found_before = is_fair and sum(loss <= limit for loss, _ in optima) > 2
        is_repeated = sum(loss <= limit for loss in new_losses) > 1 or is_found_before
        if is_good and not is_first:
            return True
        return (is_good or is_repeated) and not self._find_idle(subset_projection, optima, optima[0][1]).any()

    def _find_idle(self, subset_projection: Projection, optima: Optima, point: Array) -> npt.NDArray[np.bool_]:
        """Returns the parameters that have no effect at a point, for example in a saturated function.

        A parameter without effect at every optimum does not count, because no start can help it.
        """
        max_effects = np.max([self._compute_effects(subset_projection, other) for _, other in optima], axis=0)
        effects = self._compute_effects(subset_projection, point)
        idle: npt.NDArray[np.bool_] = (effects < _MIN_EFFECT) & (max_effects >= _MIN_EFFECT)
        return idle

    @staticmethod
    def _compute_effects(subset_projection: Projection, point: Array) -> Array:
        """Returns the effect on the values of changing each parameter by its own size."""
        effects: Array = np.abs(subset_projection.jacobian(point)).max(axis=1) * np.abs(point)
        return effects / math.sqrt(subset_projection.data.variance)

    def _refine_on_more_rows(self, optima: Optima) -> Optima:
        """Refines the best optima on more rows: a poor fit to few rows says little about the others."""
        if not optima:
            return optima
        projection = Projection(self._model, self._data.get_subset(_MIDDLE_ROWS))
        selected, max_selected = optima[:1], 2 if optima[0][0] < _GOOD_NMSE * self._data.variance else 4
        for optimum in optima[1:]:
            if len(selected) < max_selected and optimum[0] > (1.0 + 1e-3) * selected[-1][0]:
                selected.append(optimum)
        return _sort_finite([self._descend(projection, point, 30) for _, point in selected])

    def _search_last_digits(
        self, rng: np.random.Generator, subset_projection: Projection, num_starts: int, optima: Optima
    ) -> Optima:
        """Searches for the last digits if data without noise suggests an exact law.

        Some optima differ from the exact law only in the eighth digit, for example with a saturated function. The
        search draws new parameters around the best optimum, idle ones first.
        """
        num_fruitless = 0
        while optima and num_fruitless < _MAX_FRUITLESS_HUNTS and optima[0][0] > _EXACT_NMSE * self._data.variance:
            best = optima[0][1]
            best_loss = subset_projection.loss(best)
            idle_masks = [self._compute_effects(subset_projection, best) < _MIN_EFFECT]
            if optima[0][0] > (_GOOD_NMSE if idle_masks[0].any() else _PRECISE_NMSE) * self._data.variance:
                break
            points = self._pick_starts(
                rng, 2 * num_starts, 2 * DRAWS_PER_START * num_starts, [(best_loss, best)], idle_masks
            )
            new_optima = _sort_finite([self._descend(subset_projection, point, 40, 1e-8) for point in points])
            if new_optima and new_optima[0][0] < 0.1 * best_loss:
                optima = self._refine_on_more_rows(new_optima)
            else:
                num_fruitless += 1
        return optima

    def _pick_starts(
        self,
        rng: np.random.Generator,
        num_picked: int,
        num_drawn: int,
        best_optima: Optima,
        idle_masks: Sequence[npt.NDArray[np.bool_]],
    ) -> list[Array]:
        """Returns the best start of each of several groups, so that they are not all in one valley.

        Args:
            rng: Draws the starts.
            num_picked: Number of groups.
            num_drawn: Number of starts in all.
            best_optima: Known optima. Half of the starts change only some parameters of one of them.
            idle_masks: Idle parameters of each optimum, which change first.
        """
        if not num_picked:
            return []
        small_data = self._data.get_subset(max(_COMPARE_ROWS, 2 * self._num_params))
        drawn = variable_projection.draw_starts(self._model.program, small_data, num_drawn, rng)
        if best_optima:
            optimum_indices = rng.integers(len(best_optima), size=num_drawn)
            changed = rng.random(drawn.shape) < 1.0 / 3.0
            is_idle = np.array(idle_masks)[optimum_indices]
            changed[1::4] = np.where(is_idle.any(axis=1)[1::4, None], is_idle[1::4], changed[1::4])
            changed[::2] = True
            drawn = np.where(changed, drawn, np.array([point for _, point in best_optima])[optimum_indices])
        candidates = np.concatenate([drawn, [point for _, point in best_optima]]) if best_optima else drawn
        start_losses = compute_losses(self._model, small_data, candidates)
        for known_loss in start_losses[num_drawn:]:
            start_losses[np.abs(start_losses - known_loss) <= 1e-3 * known_loss] = math.inf  # a known optimum
        self._num_residuals += len(start_losses)
        groups = [np.arange(group, num_drawn, num_picked) for group in range(num_picked)]
        return [drawn[group[np.argmin(start_losses[group])]].copy() for group in groups]

    def _descend(
        self, projection: Projection, point: Array, max_evaluations: int, tolerance: float = 1e-4
    ) -> tuple[float, Array]:
        """Descends from a point with MINPACK; returns the loss and the optimum."""
        self._num_starts += 1
        residuals_before = projection.num_residuals
        if not math.isfinite(projection.loss(point)):
            return math.inf, point
        solution, *_ = scipy.optimize.leastsq(
            projection.residual,
            point,
            Dfun=projection.jacobian,
            full_output=True,
            col_deriv=True,
            ftol=tolerance,
            xtol=tolerance * 1e-3,
            gtol=0.0,
            maxfev=max_evaluations,
            factor=10.0,
        )
        self._num_residuals += projection.num_residuals - residuals_before
        return projection.loss(solution), solution

    def _make_result(self, projection: Projection, point: Array) -> FitResult:
        loss = projection.loss(point)
        if not math.isfinite(loss):
            return _make_failure("its values are not finite on every row", self._data.num_rows, self._num_residuals)
        params = self._model.merge_params(point.tolist(), projection.coefficients.tolist(), self._num_params)
        rows, num_residuals = self._data.num_rows, max(self._num_residuals, 1)
        return FitResult(params, loss, loss / self._data.variance, rows, num_residuals, self._num_starts)


def _sort_finite(optima: Optima) -> Optima:
    return sorted((optimum for optimum in optima if math.isfinite(optimum[0])), key=lambda optimum: optimum[0])
