"""Equations that a model writes: what it begins with, and what came of them when their constants were fitted."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from atoll import cluster, function
from atoll.candidate import JSON
from atoll.llmsr import fit
from atoll.llmsr.laws import result, table
from atoll.llmsr.laws.factor import Array


def start(names: Sequence[str], target: str) -> str:
    """Returns the first equation: a straight line through all variables."""
    terms = [f"params[{place}]*{name}" for place, name in enumerate(names)]
    document = f"Returns {target}. The numbers in params (at most 10) are fitted to the data; use numpy as np."
    return (
        f"def equation({', '.join(names)}, params):\n"
        f'    """{document}"""\n'
        f"    return {' + '.join(terms)} + params[{len(names)}]\n"
    )


def comment(names: Sequence[str], target: str) -> str:
    """Says what an equation is for."""
    return f"It is a law that gives {target} from {', '.join(names)}; short laws that explain the data are best."


def told(evolver: cluster.Evolver, train: table.Table, folder: Path) -> Mapping[str, JSON]:
    """Returns the equation with the best score with its errors, and the front; test files are opened here first.

    Raises:
        SetupError: A test file cannot be read, or has other columns.
    """
    kept = sorted(result.kept_functions(evolver), key=lambda fn: (_size(fn), -function.rank_of(fn)))
    front: list[function.Function] = []
    for fn in kept:
        if fn.score() is not None and (not front or function.rank_of(fn) > function.rank_of(front[-1])):
            front.append(fn)
    best = front[-1]
    equation = fit.parse(str(best.skeleton()), train.names)

    def predict(columns: Array) -> Array:
        found = fit.predict(equation.expression, _constants(best), columns.T)
        return np.nan_to_num(found, nan=np.nan, posinf=np.nan, neginf=np.nan)

    rows: list[JSON] = [{"size": _size(fn), "nmse": _error(fn), "law": _text(fn)} for fn in front]
    nmse = result.errors_of(predict, _error(best), train, folder)
    return {"law": _text(best), "size": _size(best), "nmse": nmse, "target": train.target, "front": rows}


def _metrics(fn: function.Function) -> Mapping[str, float]:
    return fn.evaluation.metrics if fn.evaluation else {}


def _size(fn: function.Function) -> int:
    return int(_metrics(fn).get("size", 0))


def _error(fn: function.Function) -> float:
    return _metrics(fn).get("nmse", float("inf"))


def _constants(fn: function.Function) -> list[float]:
    metrics = _metrics(fn)
    return [metrics[f"params[{place}]"] for place in range(sum(name.startswith("params[") for name in metrics))]


def _text(fn: function.Function) -> str:
    constants = _constants(fn)
    return f"{str(fn.skeleton()).strip()}\n# params = {constants!r}" if constants else str(fn.skeleton()).strip()
