"""Result of a law search: the front of error and size, the recommended law, and its errors."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from atoll import cluster, errors, function
from atoll.candidate import JSON
from atoll.llmsr.laws import engine, law, least_squares, population, search, table
from atoll.llmsr.laws.factor import Array
from atoll.llmsr.laws.law import Law
from atoll.llmsr.laws.least_squares import Rows

type RowIndices = npt.NDArray[np.intp]

_MAX_ROWS = 2000
_EDGE_SHARE = 0.15  # share of the rows held out at each end of a variable
_MAX_GROUPS = 20  # a variable with at most this many values is held out by value
_NUM_FOLDS = 4
_EQUAL_ERROR_RATIO = 1.25  # errors within this ratio are equal, and the smaller law wins
_MIN_ERROR = 1e-28  # smaller errors are rounding
_MAX_ERROR = 10.0  # times the variance: larger errors are equal
_MAX_CANDIDATES = 24  # from the end of the front; smaller laws are far worse


class LawCandidate(NamedTuple):
    """Law and its error on all training rows."""

    law: Law
    error: float


def choose_law(front: Sequence[LawCandidate], rows: Rows) -> LawCandidate:
    """Returns the law with the smallest error on held-out rows; of equal ones, the smallest law."""
    candidates = sorted(front, key=lambda candidate: candidate.law.size)[-_MAX_CANDIDATES:]
    if len(candidates) == 1:
        return candidates[0]
    sample = rows.select(np.linspace(0, len(rows) - 1, min(len(rows), _MAX_ROWS)).round().astype(np.intp))
    splits = [*_iter_folds(sample), *_iter_edges(sample)]
    log_errors = [_compute_log_error(candidate, sample, splits) for candidate in candidates]
    lowest = min(log_errors)
    limit = lowest + math.log(_EQUAL_ERROR_RATIO)
    return next(item for item, error in zip(candidates, log_errors, strict=True) if error <= limit)


def _compute_log_error(candidate: LawCandidate, rows: Rows, splits: Sequence[tuple[str, RowIndices]]) -> float:
    """Returns the logarithm of the mean error on held-out rows: half for random rows, half for edges."""
    errors: dict[str, list[float]] = {"inner": [], "edge": []}
    for kind, held_out in splits:
        training_rows = np.setdiff1d(np.arange(len(rows)), held_out, assume_unique=True)
        fitted = least_squares.fit(candidate.law.terms, rows.select(training_rows), steps=8, tolerance=1e-3)
        held_out_rows = rows.select(held_out)
        predicted = None if fitted is None else fitted.law.predict(held_out_rows.columns)
        error = _MAX_ERROR if predicted is None else held_out_rows.error(held_out_rows.target - predicted)
        errors[kind].append(min(error, _MAX_ERROR))
    # The mean of errors, not of logarithms, so that a law that fails at one edge fails.
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
    """Returns the candidates that no smaller one beats, smallest first. A larger one needs `share` of the error."""
    front: list[LawCandidate] = []
    for candidate in sorted(candidates, key=lambda item: (item.law.size, item.error)):
        if not front or candidate.error < share * front[-1].error:
            front.append(candidate)
        if front[-1].error < search.EXACT_ERROR:
            break
    return front


type Predict = Callable[[Array], Array]

_STEPS, _TOLERANCE = 30, 1e-9


class SearchResult(NamedTuple):
    """Recommended law and the front, smallest first, each with its training error."""

    chosen: LawCandidate
    front: list[LawCandidate]


def conclude(evolver: cluster.Evolver, train: table.Table) -> SearchResult:
    """Refits the front on all training rows and chooses a law. It reads no other rows."""
    rows, domain = train.rows, train.domain
    constant_law = LawCandidate(law.Law(((),), (float(train.y.mean()),)), 1.0)  # always part of the front
    candidates = compute_front([constant_law, *_iter_candidates(evolver)], population.FRONT_ERROR_RATIO)
    polished = [_polish(candidate, rows) for candidate in candidates]
    accepted = [new if domain.accepts(new.law.terms) else old for new, old in zip(polished, candidates, strict=True)]
    front = compute_front(accepted, population.FRONT_ERROR_RATIO)
    return SearchResult(choose_law(front, rows), front)


def _polish(candidate: LawCandidate, rows: least_squares.Rows) -> LawCandidate:
    fitted = least_squares.fit(candidate.law.terms, rows, steps=_STEPS, tolerance=_TOLERANCE)
    return LawCandidate(*fitted) if fitted is not None and fitted.error <= candidate.error else candidate


def _iter_candidates(evolver: cluster.Evolver) -> Iterator[LawCandidate]:
    for fn in iter_functions(evolver):
        candidate_law = engine.get_law(fn)
        if candidate_law is not None and fn.evaluation is not None:
            yield LawCandidate(candidate_law, fn.evaluation.metrics["nmse"])


def iter_functions(evolver: cluster.Evolver) -> Iterator[function.Function]:
    """Yields all functions of the populations."""
    for island in evolver.islands:
        if isinstance(island.population, cluster.NichedPopulation):
            for niche in island.population.clusters.values():
                yield from niche.members()


def to_json(result: SearchResult, train: table.Table, folder: Path) -> Mapping[str, JSON]:
    """Returns a result as plain data, with the errors on the test files. They are opened here and not earlier.

    Raises:
        SetupError: A test file cannot be read, or has other columns.
    """
    chosen = result.chosen
    nmse = compute_errors(chosen.law.predict, chosen.error, train, folder)
    front: list[JSON] = [
        {"size": candidate.law.size, "nmse": candidate.error, "law": candidate.law.to_text(train.names)}
        for candidate in result.front
    ]
    text = chosen.law.to_text(train.names)
    return {"law": text, "size": chosen.law.size, "nmse": nmse, "target": train.target, "front": front}


def compute_errors(predict: Predict, error: float, train: table.Table, folder: Path) -> Mapping[str, JSON]:
    """Returns the errors of a model by split. The test files are opened here.

    Raises:
        SetupError: A test file cannot be read, or has other columns.
    """
    files = [folder / name for name in table.TEST_FILES if (folder / name).is_file()]
    return {"train": error, **{path.stem: _compute_test_error(predict, train, path) for path in files}}


def _compute_test_error(predict: Predict, train: table.Table, path: Path) -> float | None:
    test = table.read_table(path)
    if test.names != train.names:
        raise errors.SetupError(
            f"{path} has the columns {', '.join(test.names)}, but {table.TRAIN_FILE} has {', '.join(train.names)}. "
            "Use the same columns."
        )
    rows = test.rows
    if not rows.variance:
        raise errors.SetupError(f"{path}: the target is constant, so it has no relative error. Remove the file.")
    error = rows.error(rows.target - predict(rows.columns))
    return error if math.isfinite(error) else None
