"""What a search came to: the front of error and size, the law that is recommended, and its errors."""

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from atoll import cluster, errors, function
from atoll.candidate import JSON
from atoll.llmsr.laws import choice, engine, law, pool, projection, table
from atoll.llmsr.laws.choice import Candidate
from atoll.llmsr.laws.factor import Array

type Predict = Callable[[Array], Array]

_STEPS, _TOLERANCE = 30, 1e-9


class Result(NamedTuple):
    """The recommended law, and the front that it was chosen from, smallest first; each with its training error."""

    chosen: Candidate
    front: list[Candidate]


def conclude(evolver: cluster.Evolver, train: table.Table) -> Result:
    """Polishes the front on all training rows and chooses from it; reads nothing but these rows."""
    rows, domain = train.rows, train.domain
    mean = Candidate(law.Law(((),), (float(train.y.mean()),)), 1.0)  # always there, whatever else was found
    found = choice.front_of([mean, *_kept(evolver)], pool.SMALLER)
    polished = [_polished(each, rows) for each in found]
    sound = [new if domain.accepts(new.law.terms) else old for new, old in zip(polished, found, strict=True)]
    front = choice.front_of(sound, pool.SMALLER)
    return Result(choice.choose(front, rows), front)


def _polished(candidate: Candidate, rows: projection.Rows) -> Candidate:
    fitted = projection.fit(candidate.law.terms, rows, steps=_STEPS, tolerance=_TOLERANCE)
    return Candidate(*fitted) if fitted is not None and fitted.error <= candidate.error else candidate


def _kept(evolver: cluster.Evolver) -> Iterator[Candidate]:
    for fn in kept_functions(evolver):
        found = engine.law_of(fn)
        if found is not None and fn.evaluation is not None:
            yield Candidate(found, fn.evaluation.metrics["nmse"])


def kept_functions(evolver: cluster.Evolver) -> Iterator[function.Function]:
    """Yields all functions that the islands keep."""
    for island in evolver.islands:
        if isinstance(island.pool, cluster.Niches):
            for each in island.pool.clusters.values():
                yield from each.members()


def told(result: Result, train: table.Table, folder: Path) -> Mapping[str, JSON]:
    """Returns a result as plain data, with the errors on the test files, which are opened here for the first time.

    Raises:
        SetupError: A test file cannot be read, or has other columns.
    """
    chosen = result.chosen
    nmse = errors_of(chosen.law.predict, chosen.error, train, folder)
    front: list[JSON] = [
        {"size": each.law.size, "nmse": each.error, "law": each.law.text(train.names)} for each in result.front
    ]
    text = chosen.law.text(train.names)
    return {"law": text, "size": chosen.law.size, "nmse": nmse, "target": train.target, "front": front}


def errors_of(predict: Predict, error: float, train: table.Table, folder: Path) -> Mapping[str, JSON]:
    """Returns the errors of a model by split; the test files are opened here.

    Raises:
        SetupError: A test file cannot be read, or has other columns.
    """
    files = [folder / name for name in table.TESTS if (folder / name).is_file()]
    return {"train": error, **{path.stem: _test_error(predict, train, path) for path in files}}


def _test_error(predict: Predict, train: table.Table, path: Path) -> float | None:
    test = table.read(path)
    if test.names != train.names:
        raise errors.SetupError(
            f"{path} has the columns {', '.join(test.names)}, and {table.TRAIN} "
            f"{', '.join(train.names)}: they must agree."
        )
    rows = test.rows
    if not rows.variance:
        raise errors.SetupError(f"{path}: the target is the same in every row, so no error can be told; leave it out.")
    found = rows.error(rows.target - predict(rows.columns))
    return found if math.isfinite(found) else None
