"""Which law of a front to recommend: by rows held out from the training data, at the edges of every variable too.

Nothing but training data is looked at. A law that is right stays right where it was not fitted; one that only bends
along the data does not, and its error at the edges shows it.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from atoll.llmsr.laws import projection, search
from atoll.llmsr.laws.law import Law
from atoll.llmsr.laws.projection import Rows

type RowIndices = npt.NDArray[np.intp]

_MAX_ROWS = 2000
_EDGE_SHARE = 0.15  # share of the rows held out at either end of a variable
_MAX_GROUPS = 20  # a variable with no more different values is held out value by value
_NUM_FOLDS = 4
_EQUAL_ERROR_RATIO = 1.25  # errors within this ratio are the same: the smaller law wins
_MIN_ERROR = 1e-28  # what is below is rounding
_MAX_ERROR = 10.0  # times the variance: beyond, all are alike
_MAX_CANDIDATES = 24  # of the front, counted from its end: what is smaller is far worse


class LawCandidate(NamedTuple):
    """A law and its error on all training rows."""

    law: Law
    error: float


def choose_law(front: Sequence[LawCandidate], rows: Rows) -> LawCandidate:
    """Returns the law with the smallest error on held-out rows, the smallest of those that are as good."""
    candidates = sorted(front, key=lambda candidate: candidate.law.size)[-_MAX_CANDIDATES:]
    if len(candidates) == 1:
        return candidates[0]
    sample = rows.select(np.linspace(0, len(rows) - 1, min(len(rows), _MAX_ROWS)).round().astype(np.intp))
    splits = [*_iter_folds(sample), *_iter_edges(sample)]
    log_errors = [_compute_log_error(candidate, sample, splits) for candidate in candidates]
    lowest = min(log_errors)
    return next(candidate for candidate, log_error in zip(candidates, log_errors, strict=True) if log_error <= lowest + math.log(_EQUAL_ERROR_RATIO))


def _compute_log_error(candidate: LawCandidate, rows: Rows, splits: Sequence[tuple[str, RowIndices]]) -> float:
    """Returns the logarithm of the mean error on held-out rows: half for inner ones, half for edges."""
    errors: dict[str, list[float]] = {"inner": [], "edge": []}
    for kind, held_out in splits:
        training_rows = np.setdiff1d(np.arange(len(rows)), held_out, assume_unique=True)
        fitted = projection.fit(candidate.law.terms, rows.select(training_rows), steps=8, tolerance=1e-3)
        held_out_rows = rows.select(held_out)
        predicted = None if fitted is None else fitted.law.predict(held_out_rows.columns)
        error = _MAX_ERROR if predicted is None else held_out_rows.error(held_out_rows.target - predicted)
        errors[kind].append(min(error, _MAX_ERROR))
    # The mean of errors and not of logarithms: a law that fails at one edge fails.
    means = [math.log(max(float(np.mean(values)), _MIN_ERROR)) for values in errors.values() if values]
    return sum(means) / len(means)


def _iter_folds(rows: Rows) -> Iterator[tuple[str, RowIndices]]:
    order = np.random.default_rng(0).permutation(len(rows))
    for fold in range(_NUM_FOLDS):
        yield "inner", np.sort(order[fold::_NUM_FOLDS])


def _iter_edges(rows: Rows) -> Iterator[tuple[str, RowIndices]]:
    for values in rows.columns:
        groups = np.unique(values)
        if len(groups) <= _MAX_GROUPS:
            yield from (("edge", np.flatnonzero(values == group)) for group in groups)
        else:
            low, high = np.quantile(values, [_EDGE_SHARE, 1.0 - _EDGE_SHARE])
            yield "edge", np.flatnonzero(values < low)
            yield "edge", np.flatnonzero(values > high)


def compute_front(candidates: Sequence[LawCandidate], share: float) -> list[LawCandidate]:
    """Returns the candidates that nothing smaller beats, smallest first; a larger one needs `share` of the error."""
    front: list[LawCandidate] = []
    for each in sorted(candidates, key=lambda candidate: (candidate.law.size, candidate.error)):
        if not front or each.error < share * front[-1].error:
            front.append(each)
        if front[-1].error < search.EXACT_ERROR:
            break
    return front
