"""One law for several tables, with constants of its own for each table.

The search varies laws on the first table. The score of a law is its error in all tables, with constants fitted to each.
"""

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np

from atoll import cluster, evaluation, function
from atoll.candidate import JSON
from atoll.llmsr import fit
from atoll.llmsr.laws import constants, constraints, engine, population, result, table, tree, view_law
from atoll.llmsr.laws.least_squares import Rows
from atoll.llmsr.laws.view_law import AnyLaw, ViewLaw

_MAX_ROWS = 2_000  # of all tables, for the score of a law
_STEPS, _TOLERANCE = 12, 1e-3
_FINAL_STEPS, _FINAL_TOLERANCE = 40, 1e-9


class TableGroup(NamedTuple):
    """Tables with the same columns. The first has the most rows.

    Attributes:
        names: Names of the tables.
        tables: The tables.
    """

    names: Sequence[str]
    tables: Sequence[table.Table]

    @property
    def rows(self) -> list[Rows]:
        return [item.rows for item in self.tables]


class GroupEvaluator:
    """Scores a law on several tables: the mean NMSE of all rows, with constants fitted to each table."""

    def __init__(self, group: TableGroup) -> None:
        share = min(1.0, _MAX_ROWS / sum(len(item.y) for item in group.tables))
        self._rows = [_select_evenly(rows, max(table.MIN_ROWS, math.ceil(share * len(rows)))) for rows in group.rows]
        self._names = group.tables[0].names
        self._data = [fit.Data(item.names, item.x, item.y) for item in group.tables]

    def __call__(self, skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
        if isinstance(skeleton, engine.LawSkeleton):
            fitted = [view_law.refit(skeleton.law, rows, _STEPS, _TOLERANCE) for rows in self._rows]
            errors = [math.inf if item is None else item.error for item in fitted]
            return engine.make_evaluation(self._average(errors), skeleton.law.size)
        try:
            equation = fit.parse(str(skeleton), self._names)
        except (fit.InvalidEquation, fit.UnsupportedEquation) as error:
            return evaluation.failed(f"the equation cannot be parsed: {error}")
        results = [fit.fit(equation.expression, data, rng=Random(0)) for data in self._data]
        failures = [item.failure for item in results if item.failure is not None]
        if failures:
            return evaluation.failed(failures[0])
        params = {f"params[{index}]": value for index, value in enumerate(results[0].params)}
        return engine.make_evaluation(
            self._average([item.nmse for item in results]), equation.expression.size, **params
        )

    def _average(self, errors: Sequence[float]) -> float:
        return float(np.average(errors, weights=[len(rows) for rows in self._rows]))


def _select_evenly(rows: Rows, count: int) -> Rows:
    order = np.argsort(rows.target, kind="stable")
    chosen = order[np.linspace(0, len(rows) - 1, min(count, len(rows))).round().astype(np.intp)]
    return Rows(np.ascontiguousarray(rows.columns[:, chosen]), rows.target[chosen], rows.variance)


def conclude(evolver: cluster.Evolver, group: TableGroup) -> Mapping[str, JSON]:
    """Returns the recommended law with the constants of each table, and the front."""
    names = group.tables[0].names
    num_rows = sum(len(item.y) for item in group.tables)
    front = result.compute_front(list(result.iter_candidates(evolver, names)), population.FRONT_ERROR_RATIO)

    def compute_length(candidate: result.LawCandidate) -> float:
        num_constants = result.count_constants(candidate.law) * len(group.tables)
        return result.compute_description(candidate.law.size, num_constants, candidate.error, num_rows)

    chosen = min(front, key=compute_length)
    fitted = _fit_tables(chosen.law, group)
    counts = [len(item.y) for item in group.tables]
    rows: list[JSON] = [
        {"size": candidate.law.size, "nmse": candidate.error, "law": candidate.law.to_text(names)}
        for candidate in front
    ]
    tables: list[JSON] = [
        {"table": name, "rows": count, "nmse": error, **{f"c{index}": value for index, value in enumerate(values)}}
        for name, count, error, values in zip(group.names, counts, fitted.errors, fitted.values, strict=True)
    ]
    return {
        "law": fitted.text,
        "size": fitted.size,
        "nmse": {"train": float(np.average(fitted.errors, weights=counts))},
        "target": group.tables[0].target,
        "tables": tables,
        "front": rows,
    }


def _fit_tables(law: AnyLaw, group: TableGroup) -> constants.TableConstants:
    rows = group.rows
    law_tree = constraints.to_tree(law, len(group.tables[0].names))
    assert law_tree is not None
    law_tree = tree.simplify(law_tree)
    own = tree.collect_constants(law_tree)
    starts = []
    for item in rows:
        refitted = view_law.refit(law, item, _FINAL_STEPS, _FINAL_TOLERANCE) if isinstance(law, ViewLaw) else None
        other = None if refitted is None else constraints.to_tree(refitted.law, len(group.tables[0].names))
        is_same = other is not None and tree.get_shape(tree.simplify(other)) == tree.get_shape(law_tree)
        starts.append(tree.collect_constants(tree.simplify(other)) if other is not None and is_same else own)
    return constants.fit_tables(law_tree, rows, starts, group.tables[0].names)
