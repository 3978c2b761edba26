"""Result of a law search: the front of error and size, the recommended law, and its errors."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from atoll import cluster, errors, function
from atoll.candidate import JSON
from atoll.llmsr import fit
from atoll.llmsr.laws import engine, population, search, table, tree, view_law
from atoll.llmsr.laws.domain import Domain
from atoll.llmsr.laws.factor import Array
from atoll.llmsr.laws.law import Law
from atoll.llmsr.laws.least_squares import Rows
from atoll.llmsr.laws.view_law import AnyLaw, TreeLaw

type RowIndices = npt.NDArray[np.intp]

_MAX_ROWS = 2000
_EDGE_SHARE = 0.15  # share of the rows held out at each end of a variable
_MAX_GROUPS = 20  # a variable with at most this many values is held out by value
_NUM_FOLDS = 4
_EXACT_ERROR = 1e-20  # smaller errors on training data show an exact law
_MAX_COUNTED_ROWS = 1000  # more rows would make any better error worth any size
_NATS_PER_NODE = math.log(10.0)
_MAX_ROUNDING_NATS = 2.0  # likelihood that rounding one constant may cost
_MIN_ERROR = 1e-28  # smaller errors are rounding
_MAX_ERROR = 10.0  # times the variance: larger errors are equal
_MAX_CANDIDATES = 8  # with the shortest description by training error


class LawCandidate(NamedTuple):
    """Law and its error on all training rows."""

    law: AnyLaw
    error: float


def choose_law(front: Sequence[LawCandidate], rows: Rows) -> LawCandidate:
    """Returns the law with the shortest description: of its errors on held-out rows, its constants and its tree."""
    candidates = sorted(front, key=lambda candidate: _compute_description(candidate.law, candidate.error, rows))
    if candidates[0].error < _EXACT_ERROR:
        return candidates[0]
    sample = rows.select(np.linspace(0, len(rows) - 1, min(len(rows), _MAX_ROWS)).round().astype(np.intp))
    splits = [*_iter_folds(sample), *_iter_edges(sample)]

    def compute_length(candidate: LawCandidate) -> float:
        return _compute_description(candidate.law, math.exp(_compute_log_error(candidate, sample, splits)), rows)

    return min(candidates[:_MAX_CANDIDATES], key=compute_length)


def _compute_description(law: AnyLaw, error: float, rows: Rows) -> float:
    """Returns the description length of the data with a law, in nats up to a constant."""
    num_rows = min(len(rows), _MAX_COUNTED_ROWS)
    length = 0.5 * num_rows * math.log(max(error, _MIN_ERROR))
    return length + 0.5 * _count_constants(law) * math.log(num_rows) + law.size * _NATS_PER_NODE


def _count_constants(law: AnyLaw) -> int:
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
    constant_law = LawCandidate(Law(((),), (float(train.y.mean()),)), 1.0)  # always part of the front
    candidates = compute_front([constant_law, *_iter_candidates(evolver, train.names)], population.FRONT_ERROR_RATIO)
    polished = [_polish(candidate, rows, domain) for candidate in candidates]
    original = choose_law(compute_front(polished, population.FRONT_ERROR_RATIO), rows)
    chosen = _tidy(original, rows)
    others = [candidate for candidate in polished if candidate is not original]
    front = compute_front([*others, chosen], population.FRONT_ERROR_RATIO)
    if chosen not in front:  # a smaller law has nearly the same error
        front = sorted([*front, chosen], key=lambda candidate: candidate.law.size)
    return SearchResult(chosen, front)


def _polish(candidate: LawCandidate, rows: Rows, domain: Domain) -> LawCandidate:
    fitted = view_law.refit(candidate.law, rows, steps=_STEPS, tolerance=_TOLERANCE)
    if fitted is None or not fitted.error <= candidate.error:
        return candidate
    if isinstance(fitted.law, Law) and not domain.accepts(fitted.law.terms):
        return candidate
    return LawCandidate(*fitted)


def _tidy(candidate: LawCandidate, rows: Rows) -> LawCandidate:
    """Rounds constants of a tree to simple numbers as far as the data supports it, which also removes terms."""
    known_tree = _get_tree(candidate.law, rows)
    if known_tree is None:
        return candidate
    limit = max(candidate.error * math.exp(_MAX_ROUNDING_NATS / len(rows)), _EXACT_ERROR * 1e-2)

    def compute_error(law_tree: tree.Tree) -> float:
        return rows.error(rows.target - TreeLaw(law_tree).predict(rows.columns))

    best = tree.simplify(known_tree)
    for path in [path for path, node in tree.iter_nodes(best) if node[0] == "c"]:
        for value in _iter_simple_numbers(_get_node(best, path)[1]):
            rounded = tree.replace_node(best, path, ("c", value))
            if compute_error(rounded) <= limit:
                best = rounded
                break
    simple = tree.merge_factors(tree.simplify(best))
    error = compute_error(simple)
    return LawCandidate(TreeLaw(simple), error) if error <= 2.0 * limit else candidate


def _get_tree(law: AnyLaw, rows: Rows) -> tree.Tree | None:
    """Returns a law as a tree; None if it cannot be one."""
    if isinstance(law, TreeLaw):
        return law.tree
    names = [f"x{index}" for index in range(len(rows.columns))]
    return tree.from_expression(fit.parse(law.to_text(names), names).expression)


def _get_node(law_tree: tree.Tree, path: tree.Path) -> tree.Tree:
    for position in path:
        law_tree = law_tree[position]
    return law_tree


def _iter_simple_numbers(value: float) -> Iterator[float]:
    """Yields simple numbers near a constant: zero, whole numbers, fractions, multiples of pi, then decimals."""
    if not math.isfinite(value):
        return
    yield 0.0
    for denominator in (1, 2, 3, 4):
        yield round(value * denominator) / denominator
    for denominator in (1, 2, 4):
        yield round(value / math.pi * denominator) / denominator * math.pi
    for digits in range(1, 13):
        yield float(f"{value:.{digits}g}")


def _iter_candidates(evolver: cluster.Evolver, names: Sequence[str]) -> Iterator[LawCandidate]:
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
