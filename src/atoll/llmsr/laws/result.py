"""What a search came to: the front of error and size, the law that is recommended, and its errors."""

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from atoll import cluster, errors, function
from atoll.candidate import JSON
from atoll.llmsr.laws import choice, engine, law, pool, projection, table
from atoll.llmsr.laws.choice import LawCandidate
from atoll.llmsr.laws.factor import Array

type Predict = Callable[[Array], Array]

_STEPS, _TOLERANCE = 30, 1e-9


class SearchResult(NamedTuple):
    """The recommended law, and the front that it was chosen from, smallest first; each with its training error."""

    chosen: LawCandidate
    front: list[LawCandidate]


def conclude(evolver: cluster.Evolver, train: table.Table) -> SearchResult:
    """Polishes the front on all training rows and chooses from it; reads nothing but these rows."""
    rows, domain = train.rows, train.domain
    constant_law = LawCandidate(law.Law(((),), (float(train.y.mean()),)), 1.0)  # always there, whatever else was found
    candidates = choice.compute_front([constant_law, *_iter_candidates(evolver)], pool.FRONT_ERROR_RATIO)
    polished = [_polish(candidate, rows) for candidate in candidates]
    accepted = [new if domain.accepts(new.law.terms) else old for new, old in zip(polished, candidates, strict=True)]
    front = choice.compute_front(accepted, pool.FRONT_ERROR_RATIO)
    return SearchResult(choice.choose_law(front, rows), front)


def _polish(candidate: LawCandidate, rows: projection.Rows) -> LawCandidate:
    fitted = projection.fit(candidate.law.terms, rows, steps=_STEPS, tolerance=_TOLERANCE)
    return LawCandidate(*fitted) if fitted is not None and fitted.error <= candidate.error else candidate


def _iter_candidates(evolver: cluster.Evolver) -> Iterator[LawCandidate]:
    for fn in iter_functions(evolver):
        candidate_law = engine.get_law(fn)
        if candidate_law is not None and fn.evaluation is not None:
            yield LawCandidate(candidate_law, fn.evaluation.metrics["nmse"])


def iter_functions(evolver: cluster.Evolver) -> Iterator[function.Function]:
    """Yields all functions that the islands keep."""
    for island in evolver.islands:
        if isinstance(island.population, cluster.NichedPopulation):
            for niche in island.population.clusters.values():
                yield from niche.members()


def to_json(result: SearchResult, train: table.Table, folder: Path) -> Mapping[str, JSON]:
    """Returns a result as plain data, with the errors on the test files, which are opened here for the first time.

    Raises:
        SetupError: A test file cannot be read, or has other columns.
    """
    chosen = result.chosen
    nmse = compute_errors(chosen.law.predict, chosen.error, train, folder)
    front: list[JSON] = [
        {"size": candidate.law.size, "nmse": candidate.error, "law": candidate.law.to_text(train.names)} for candidate in result.front
    ]
    text = chosen.law.to_text(train.names)
    return {"law": text, "size": chosen.law.size, "nmse": nmse, "target": train.target, "front": front}


def compute_errors(predict: Predict, error: float, train: table.Table, folder: Path) -> Mapping[str, JSON]:
    """Returns the errors of a model by split; the test files are opened here.

    Raises:
        SetupError: A test file cannot be read, or has other columns.
    """
    files = [folder / name for name in table.TEST_FILES if (folder / name).is_file()]
    return {"train": error, **{path.stem: _compute_test_error(predict, train, path) for path in files}}


def _compute_test_error(predict: Predict, train: table.Table, path: Path) -> float | None:
    test = table.read_table(path)
    if test.names != train.names:
        raise errors.SetupError(
            f"{path} has the columns {', '.join(test.names)}, and {table.TRAIN_FILE} "
            f"{', '.join(train.names)}: they must agree."
        )
    rows = test.rows
    if not rows.variance:
        raise errors.SetupError(f"{path}: the target is the same in every row, so no error can be told; leave it out.")
    error = rows.error(rows.target - predict(rows.columns))
    return error if math.isfinite(error) else None
