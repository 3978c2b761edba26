"""Result of a law search: the front of error and size, the recommended law, and its errors."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from atoll import cluster, errors, function
from atoll.candidate import JSON
from atoll.llmsr.laws import constraints, engine, population, rounding, search, table, tree, view_law
from atoll.llmsr.laws.constants import Doubt, describe_doubt, find_extrapolation
from atoll.llmsr.laws.domain import Domain
from atoll.llmsr.laws.law import Array, Law
from atoll.llmsr.laws.least_squares import Rows
from atoll.llmsr.laws.view_law import AnyLaw, TreeLaw

type RowIndices = npt.NDArray[np.intp]

_MAX_ROWS, _MAX_PLOTTED = 2000, 150  # rows of the sample; rows of a split with stored predictions
_EDGE_SHARE = 0.15  # share of the rows held out at each end of a variable
_MAX_GROUPS = 20  # a variable with at most this many values is held out by value
_NUM_FOLDS = 4
_EXACT_ERROR = 1e-20  # smaller errors on training data show an exact law
_MAX_COUNTED_ROWS = 1000  # more rows would make any better error worth any size
_NATS_PER_NODE = math.log(10.0)
_MIN_ERROR = 1e-28  # smaller errors are rounding
_MAX_ERROR = 10.0  # times the variance: larger errors are equal
_MAX_ERROR_RATIO = 100.0  # of the error on a sample of rows and that on all
_MAX_TIDIED, _MAX_CANDIDATES = 12, 8  # with the shortest description by training error: tidied, cross-validated
_MAX_TIDY_ROWS = 2000
_MAX_RUNNERS_UP, _MAX_CLOSE_NATS = 3, 12.0  # laws whose description is at most this much longer
_MAX_ROUNDING_GAIN = 30.0  # nats by which rounding may shorten a description: about ten nodes
# Size of the noise by the power of the target that it grows with.
_NOISE_SIZES = {0.0: "equal in all rows", 0.5: "grows with the root of the target", 1.0: "proportional to the target"}
_MIN_TARGET = 0.01  # of its root mean square; the noise of smaller values is that of this one
_MIN_NOISE_GAIN = 10.0  # nats that noise which grows must save
_MAX_NOISY_ERROR = 0.05  # of the law that shows such noise: larger errors are those of a wrong law


class LawCandidate(NamedTuple):
    """Law and its error on all training rows."""

    law: AnyLaw
    error: float


class ChosenLaw(NamedTuple):
    """Law before and after its constants were rounded, and the length of its description in nats."""

    original: LawCandidate
    tidy: LawCandidate
    length: float


def estimate_noise(candidates: Sequence[LawCandidate], train: table.Table) -> tuple[float, Rows]:
    """Returns the noise that gives the shortest description of the data by a law: its power, and the rows with it.

    Either all rows have the same noise, or it grows with the target, like that of a device with a relative error. With
    the first assumption, a few rows with large values decide alone, and laws that fit their noise seem better.
    """
    rows, sample = train.rows, _select_rows(train.rows, _MAX_ROWS)
    has_one_sign = bool(rows.target.min() > 0.0 or rows.target.max() < 0.0)
    if not has_one_sign or min(item.error for item in candidates) < max(_EXACT_ERROR, train.floor):
        return 0.0, rows
    with np.errstate(all="ignore"):
        residuals = [sample.target - item.law.predict(sample.columns) for item in candidates]

    def compute_shortest(power: float) -> float:
        noisy = replace(sample, noise=_compute_noise(sample.target, power))
        lengths = []
        for item, residual in zip(candidates, residuals, strict=True):
            error = noisy.error(residual)
            if math.isfinite(error) and (not power or item.error < _MAX_NOISY_ERROR):
                lengths.append(_compute_length(item.law, error, train))
        return min(lengths, default=math.inf) + (_MIN_NOISE_GAIN if power else 0.0)

    power = min(_NOISE_SIZES, key=compute_shortest)
    return power, replace(rows, noise=_compute_noise(rows.target, power)) if power else rows


def _compute_noise(target: Array, power: float) -> Array:
    sizes = np.maximum(np.abs(target), _MIN_TARGET * math.sqrt(float(np.mean(target * target)))) ** power
    return sizes / math.exp(float(np.mean(np.log(sizes))))


def rank_laws(
    candidates: Sequence[LawCandidate], train: table.Table, rows: Rows, accepts: Callable[[AnyLaw], bool]
) -> list[ChosenLaw]:
    """Returns the laws by the length of their description, of errors on held-out rows, constants and tree.

    Constants and tree are those after rounding. Errors below the floor of the table are equal.

    Args:
        candidates: The laws.
        train: The table.
        rows: Its rows, with their noise.
        accepts: Returns whether a law may be chosen.
    """
    shortlisted = _shortlist(candidates, train, rows)
    tidied = [ChosenLaw(item, _round(item, train, rows), 0.0) for item in shortlisted]
    tidied = [item if accepts(item.tidy.law) else item._replace(tidy=item.original) for item in tidied]
    tidied = [item._replace(length=_compute_length(item.tidy.law, _measure(item.tidy, rows), train)) for item in tidied]
    tidied.sort(key=lambda item: item.length)
    if tidied[0].tidy.error < max(_EXACT_ERROR, train.floor):
        return tidied
    sample = _select_rows(rows, _MAX_ROWS)
    splits = [*_iter_folds(sample), *_iter_edges(sample)]

    def compute_length(item: ChosenLaw) -> float:
        error = math.exp(_compute_log_error(item.original, sample, splits))
        return _compute_length(item.tidy.law, error, train)

    validated = [item._replace(length=compute_length(item)) for item in tidied[:_MAX_CANDIDATES]]
    return sorted(validated, key=lambda item: item.length)


def _round(candidate: LawCandidate, train: table.Table, rows: Rows) -> LawCandidate:
    sample = _select_rows(rows, _MAX_TIDY_ROWS)
    rounded = rounding.round_constants(candidate.law, sample, train.floor, train.num_independent)
    if rounded is candidate.law:
        return candidate
    return LawCandidate(rounded, train.rows.error(train.y - rounded.predict(train.rows.columns)))


def _measure(candidate: LawCandidate, rows: Rows) -> float:
    """Returns the error of a law, weighted by the noise of the rows."""
    if rows.noise is None:
        return candidate.error
    with np.errstate(all="ignore"):
        error = rows.error(rows.target - candidate.law.predict(rows.columns))
    return error if math.isfinite(error) else _MAX_ERROR


def _shortlist(candidates: Sequence[LawCandidate], train: table.Table, rows: Rows) -> list[LawCandidate]:
    """Returns the candidates with the shortest description by their error on the training rows, shortest first."""
    lengths = [_compute_length(item.law, _measure(item, rows), train) for item in candidates]
    order = sorted(range(len(candidates)), key=lengths.__getitem__)[:_MAX_TIDIED]
    return [candidates[index] for index in order if lengths[index] <= lengths[order[0]] + _MAX_ROUNDING_GAIN]


def _compute_length(law: AnyLaw, error: float, train: table.Table) -> float:
    return compute_description(law.size, count_constants(law), max(error, train.floor), train.num_independent)


def _select_rows(rows: Rows, count: int) -> Rows:
    return rows.select(np.linspace(0, len(rows) - 1, min(len(rows), count)).round().astype(np.intp))


def compute_description(size: int, num_constants: int, error: float, num_rows: int) -> float:
    """Returns the description length of the data with a law, in nats up to a constant."""
    counted_rows = min(num_rows, _MAX_COUNTED_ROWS)
    length = 0.5 * counted_rows * math.log(max(error, _MIN_ERROR))
    return length + 0.5 * num_constants * math.log(counted_rows) + size * _NATS_PER_NODE


def count_constants(law: AnyLaw) -> int:
    """Returns the number of constants of a law."""
    if isinstance(law, Law):
        return len(law.coefficients) + sum(len(factor.theta) for term in law.terms for factor in term)
    assert isinstance(law, TreeLaw)
    return tree.count_constants(law.tree)


def _compute_log_error(candidate: LawCandidate, rows: Rows, splits: Sequence[tuple[str, RowIndices]]) -> float:
    """Returns the logarithm of the mean error on held-out rows: half for random rows, half for edges."""
    errors: dict[str, list[float]] = {"inner": [], "edge": []}
    for kind, held_out in splits:
        training_rows = np.setdiff1d(np.arange(len(rows)), held_out, assume_unique=True)
        fitted = view_law.refit(candidate.law, rows.select(training_rows), steps=8, tolerance=1e-3)
        held_out_rows = rows.select(held_out)
        predicted = None if fitted is None else fitted.law.predict(held_out_rows.columns)
        error = _MAX_ERROR if predicted is None else held_out_rows.error(held_out_rows.target - predicted)
        errors[kind].append(min(error, _MAX_ERROR) if math.isfinite(error) else _MAX_ERROR)
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


def compute_front(candidates: Sequence[LawCandidate], share: float, floor: float = 0.0) -> list[LawCandidate]:
    """Returns the candidates that no smaller one beats, smallest first. A larger one needs `share` of the error.

    Errors below the floor are equal. Of equals, the one with fewer constants is on the front.
    """

    def get_key(candidate: LawCandidate) -> tuple[int, float, int]:
        return candidate.law.size, max(candidate.error, floor), count_constants(candidate.law)

    front: list[LawCandidate] = []
    for candidate in sorted(candidates, key=get_key):
        if not front or max(candidate.error, floor) < share * max(front[-1].error, floor):
            front.append(candidate)
        if front[-1].error < max(search.EXACT_ERROR, floor):
            break
    return front


type Predict = Callable[[Array], Array]

_STEPS, _TOLERANCE = 30, 1e-9


class SearchResult(NamedTuple):
    """Result of a search.

    Attributes:
        chosen: The recommended law and its training error.
        front: The best law of every size, smallest first.
        doubt: Noise, error bars and runners-up of the recommended law.
        noise_size: Which rows have how much noise, in words.
    """

    chosen: LawCandidate
    front: list[LawCandidate]
    doubt: Doubt
    noise_size: str


def conclude(
    evolver: cluster.Evolver, train: table.Table, limits: constraints.Constraints | None = None
) -> SearchResult:
    """Refits the front on all training rows and chooses a law. It reads no other rows."""

    def accepts(law: AnyLaw) -> bool:
        return limits is None or not limits.find_violation(law)

    rows, domain, share = train.rows, train.domain, population.FRONT_ERROR_RATIO
    constant_law = LawCandidate(Law(((),), (float(train.y.mean()),)), 1.0)  # always part of the front
    sample = _select_rows(rows, _MAX_ROWS)
    candidates = [constant_law]
    candidates += [item for item in iter_candidates(evolver, train.names) if _has_error(item, sample)]
    power, noisy_rows = estimate_noise(candidates, train)
    best = compute_front(candidates, share, train.floor) + _shortlist(candidates, train, noisy_rows)
    unique = {id(item): item for item in best}
    polished = [
        polished_item if accepts((polished_item := _polish(candidate, rows, domain)).law) else candidate
        for candidate in unique.values()
    ]
    ranked = rank_laws(polished, train, noisy_rows, accepts)
    original, chosen, length = ranked[0]
    close_laws = {
        item.tidy.law.to_text(train.names): item for item in ranked if item.length <= length + _MAX_CLOSE_NATS
    }
    close_laws.pop(chosen.law.to_text(train.names))
    others = [candidate for candidate in polished if candidate is not original]
    front = compute_front([*others, chosen], share, train.floor)
    if chosen not in front:  # a smaller law has nearly the same error
        front = sorted([*front, chosen], key=lambda candidate: candidate.law.size)
    runners_up = [item.tidy for item in list(close_laws.values())[:_MAX_RUNNERS_UP]]
    doubt = describe_doubt(chosen.law, chosen.error, runners_up, train, noisy_rows)
    return SearchResult(chosen, front, doubt, _NOISE_SIZES[power])


def _has_error(candidate: LawCandidate, sample: Rows) -> bool:
    """Returns whether a law has about its stored error: one written by an LLM may overflow when it is read back."""
    with np.errstate(all="ignore"):
        error = sample.error(sample.target - candidate.law.predict(sample.columns))
    return error <= max(_MAX_ERROR_RATIO * candidate.error, _MAX_ERROR_RATIO * _EXACT_ERROR)


def _polish(candidate: LawCandidate, rows: Rows, domain: Domain) -> LawCandidate:
    fitted = view_law.refit(candidate.law, rows, steps=_STEPS, tolerance=_TOLERANCE)
    if fitted is None or not fitted.error <= candidate.error:
        return candidate
    if isinstance(fitted.law, Law) and not domain.accepts(fitted.law.terms):
        return candidate
    return LawCandidate(*fitted)


def iter_candidates(evolver: cluster.Evolver, names: Sequence[str]) -> Iterator[LawCandidate]:
    """Yields all laws of the populations."""
    for fn in iter_functions(evolver):
        candidate_law = engine.get_any_law(fn, names)
        if candidate_law is not None and fn.evaluation is not None:
            yield LawCandidate(candidate_law, fn.evaluation.metrics["nmse"])


def iter_functions(evolver: cluster.Evolver) -> Iterator[function.Function]:
    """Yields all functions of the populations."""
    for island in evolver.islands:
        if isinstance(island.population, cluster.NichedPopulation):
            for niche in island.population.clusters.values():
                yield from niche.members()


def to_json(
    result: SearchResult, train: table.Table, reader: table.TableReader, folder: Path | None
) -> Mapping[str, JSON]:
    """Returns a result as plain data, with the errors on the test files. They are opened here and not earlier.

    Raises:
        SetupError: A test file cannot be read, or has other columns.
    """
    chosen, doubt = result.chosen, result.doubt
    nmse = compute_errors(chosen.law.predict, chosen.error, train, reader, folder)
    front: list[JSON] = [
        {"size": candidate.law.size, "nmse": candidate.error, "law": candidate.law.to_text(train.names)}
        for candidate in result.front
    ]
    error_bars: list[JSON] = [{"constant": value, "error": error} for value, error in doubt.constants]
    runners_up: list[JSON] = [
        {"size": item.law.size, "nmse": item.error, "law": item.law.to_text(train.names), "decide": item.decide}
        for item in doubt.runners_up
    ]
    noise: JSON = {"deviation": doubt.noise, "relative": doubt.noise / float(train.y.std()), "size": result.noise_size}
    tests = {path.stem: reader.read(path) for path in _find_test_files(folder)}
    extrapolation = {
        name: f"outside of the training range, by variable: {_format_shares(shares)}"
        for name, test in tests.items()
        if (shares := find_extrapolation(test.x, train))
    }
    return {
        "law": chosen.law.to_text(train.names),
        "size": chosen.law.size,
        "nmse": nmse,
        "target": train.target,
        "noise": noise,
        **({"extrapolation": extrapolation} if extrapolation else {}),
        "constants": error_bars,
        "runners_up": runners_up,
        "front": front,
        "predictions": _sample_predictions(chosen.law.predict, {"train": train, **tests}),
    }


def _sample_predictions(predict: Predict, tables: Mapping[str, table.Table]) -> dict[str, JSON]:
    """Returns measured and predicted values of evenly spaced rows, by split, for a plot."""
    points: dict[str, JSON] = {}
    for name, rows in ((name, split.rows) for name, split in tables.items()):
        indices = np.linspace(0, len(rows) - 1, min(len(rows), _MAX_PLOTTED)).astype(int)
        pairs = np.stack([rows.target, np.broadcast_to(predict(rows.columns), rows.target.shape)])[:, indices].T
        points[name] = [[float(f"{value:.6g}") for value in pair] for pair in pairs if np.isfinite(pair).all()]
    return points


def _format_shares(shares: Mapping[str, float]) -> str:
    return "; ".join(f"{name} in {share:.0%} of the rows" for name, share in shares.items())


def _find_test_files(folder: Path | None) -> list[Path]:
    return [path for stem in table.TEST_STEMS if folder and (path := table.find_file(folder, stem))]


def compute_errors(
    predict: Predict, error: float, train: table.Table, reader: table.TableReader, folder: Path | None
) -> Mapping[str, JSON]:
    """Returns the errors of a model by split. The test files are opened here; without a folder there are none.

    Raises:
        SetupError: A test file cannot be read, or has other columns.
    """
    files = _find_test_files(folder)
    return {"train": error, **{path.stem: _compute_test_error(predict, train, reader, path) for path in files}}


def _compute_test_error(predict: Predict, train: table.Table, reader: table.TableReader, path: Path) -> float | None:
    test = reader.read(path)
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
