"""Equations that a model writes: what it begins with, and what came of them when their constants were fitted."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from atoll import cluster, function
from atoll.candidate import JSON
from atoll.llmsr import fit
from atoll.llmsr.laws import result, table
from atoll.llmsr.laws.factor import Array


def make_initial_equation(names: Sequence[str], target: str) -> str:
    """Returns the first equation: a straight line through all variables."""
    terms = [f"params[{index}]*{name}" for index, name in enumerate(names)]
    docstring = f"Returns {target}. The numbers in params (at most 10) are fitted to the data; use numpy as np."
    return (
        f"def equation({', '.join(names)}, params):\n"
        f'    """{docstring}"""\n'
        f"    return {' + '.join(terms)} + params[{len(names)}]\n"
    )


def describe_equation(names: Sequence[str], target: str) -> str:
    """Says what an equation is for."""
    return f"It is a law that gives {target} from {', '.join(names)}; short laws that explain the data are best."


def equations_to_json(evolver: cluster.Evolver, train: table.Table, folder: Path) -> Mapping[str, JSON]:
    """Returns the equation with the best score with its errors, and the front; test files are opened here first.

    Raises:
        SetupError: A test file cannot be read, or has other columns.
    """
    functions = sorted(result.iter_functions(evolver), key=lambda fn: (_get_size(fn), -function.get_fitness(fn)))
    front: list[function.Function] = []
    for fn in functions:
        if fn.score() is not None and (not front or function.get_fitness(fn) > function.get_fitness(front[-1])):
            front.append(fn)
    best = front[-1]
    equation = fit.parse(str(best.skeleton()), train.names)

    def predict(columns: Array) -> Array:
        predicted = fit.predict(equation.expression, _get_constants(best), columns.T)
        return np.nan_to_num(predicted, nan=np.nan, posinf=np.nan, neginf=np.nan)

    rows: list[JSON] = [{"size": _get_size(fn), "nmse": _get_error(fn), "law": _format_equation(fn)} for fn in front]
    nmse = result.compute_errors(predict, _get_error(best), train, folder)
    return {"law": _format_equation(best), "size": _get_size(best), "nmse": nmse, "target": train.target, "front": rows}


def _get_metrics(fn: function.Function) -> Mapping[str, float]:
    return fn.evaluation.metrics if fn.evaluation else {}


def _get_size(fn: function.Function) -> int:
    return int(_get_metrics(fn).get("size", 0))


def _get_error(fn: function.Function) -> float:
    return _get_metrics(fn).get("nmse", float("inf"))


def _get_constants(fn: function.Function) -> list[float]:
    metrics = _get_metrics(fn)
    return [metrics[f"params[{index}]"] for index in range(sum(name.startswith("params[") for name in metrics))]


def _format_equation(fn: function.Function) -> str:
    constants = _get_constants(fn)
    return f"{str(fn.skeleton()).strip()}\n# params = {constants!r}" if constants else str(fn.skeleton()).strip()
