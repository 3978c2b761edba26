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

type Places = npt.NDArray[np.intp]

_MOST_ROWS = 2000
_EDGE = 0.15  # share of the rows held out at either end of a variable
_FEW_VALUES = 20  # a variable with no more different values is held out value by value
_NUM_FOLDS = 4
_AS_GOOD = 1.25  # errors within this ratio are the same: the smaller law wins
_FLOOR = 1e-28  # what is below is rounding
_HOPELESS = 10.0  # times the variance: beyond, all are alike
_LAST = 24  # of the front, counted from its end: what is smaller is far worse


class Candidate(NamedTuple):
    """A law and its error on all training rows."""

    law: Law
    error: float


def choose(front: Sequence[Candidate], rows: Rows) -> Candidate:
    """Returns the law with the smallest error on held-out rows, the smallest of those that are as good."""
    candidates = sorted(front, key=lambda each: each.law.size)[-_LAST:]
    if len(candidates) == 1:
        return candidates[0]
    sample = rows.at(np.linspace(0, len(rows) - 1, min(len(rows), _MOST_ROWS)).round().astype(np.intp))
    splits = [*_folds(sample), *_edges(sample)]
    marks = [_mark(each, sample, splits) for each in candidates]
    best = min(marks)
    return next(each for each, mark in zip(candidates, marks, strict=True) if mark <= best + math.log(_AS_GOOD))


def _mark(candidate: Candidate, rows: Rows, splits: Sequence[tuple[str, Places]]) -> float:
    """Returns the logarithm of the mean error on held-out rows: half for inner ones, half for edges."""
    marks: dict[str, list[float]] = {"inner": [], "edge": []}
    for kind, held_out in splits:
        kept = np.setdiff1d(np.arange(len(rows)), held_out, assume_unique=True)
        fitted = projection.fit(candidate.law.terms, rows.at(kept), steps=8, tolerance=1e-3)
        outside = rows.at(held_out)
        predicted = None if fitted is None else fitted.law.predict(outside.columns)
        error = _HOPELESS if predicted is None else outside.error(outside.target - predicted)
        marks[kind].append(min(error, _HOPELESS))
    # The mean of errors and not of logarithms: a law that fails at one edge fails.
    means = [math.log(max(float(np.mean(each)), _FLOOR)) for each in marks.values() if each]
    return sum(means) / len(means)


def _folds(rows: Rows) -> Iterator[tuple[str, Places]]:
    order = np.random.default_rng(0).permutation(len(rows))
    for fold in range(_NUM_FOLDS):
        yield "inner", np.sort(order[fold::_NUM_FOLDS])


def _edges(rows: Rows) -> Iterator[tuple[str, Places]]:
    for values in rows.columns:
        groups = np.unique(values)
        if len(groups) <= _FEW_VALUES:
            yield from (("edge", np.flatnonzero(values == group)) for group in groups)
        else:
            low, high = np.quantile(values, [_EDGE, 1.0 - _EDGE])
            yield "edge", np.flatnonzero(values < low)
            yield "edge", np.flatnonzero(values > high)


def front_of(candidates: Sequence[Candidate], share: float) -> list[Candidate]:
    """Returns the candidates that nothing smaller beats, smallest first; a larger one needs `share` of the error."""
    front: list[Candidate] = []
    for each in sorted(candidates, key=lambda each: (each.law.size, each.error)):
        if not front or each.error < share * front[-1].error:
            front.append(each)
        if front[-1].error < search.EXACT:
            break
    return front
