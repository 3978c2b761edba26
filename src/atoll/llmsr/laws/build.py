"""Builds a law search on one table or several, without an LLM or with one that writes equations."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from atoll import cluster, control, errors, evaluation, function, llm, system
from atoll.candidate import JSON
from atoll.llmsr import fit, source
from atoll.llmsr.config import Options, Task
from atoll.llmsr.fit import lazy_scipy
from atoll.llmsr.laws import (
    constants,
    constraints,
    engine,
    formulas,
    law,
    population,
    result,
    search,
    table,
    tree,
    view_law,
    views,
)
from atoll.llmsr.laws.law import Array
from atoll.llmsr.laws.least_squares import Rows
from atoll.llmsr.laws.view_law import AnyLaw, ViewLaw
from atoll.llmsr.mutation_engine import PyMutationEngine

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


def make_initial_equation(names: Sequence[str], target: str) -> str:
    """Returns the initial equation, which is linear in all variables."""
    terms = [f"params[{index}]*{name}" for index, name in enumerate(names)]
    docstring = f"Returns {target}. The numbers in params (at most 10) are fitted to the data. Use numpy as np."
    return (
        f"def equation({', '.join(names)}, params):\n"
        f'    """{docstring}"""\n'
        f"    return {' + '.join(terms)} + params[{len(names)}]\n"
    )


def describe_equation(names: Sequence[str], target: str, description: str) -> str:
    """Returns the comment for the prompt: the form of the law, then the description of the user."""
    form = f"It is a law that computes {target} from {', '.join(names)}. Prefer short laws that explain the data."
    return f"{form}\n{description.strip()}".strip()


def equations_to_json(
    evolver: cluster.Evolver, train: table.Table, reader: table.TableReader, folder: Path | None
) -> Mapping[str, JSON]:
    """Returns the best equation with its errors, and the front. Test files are opened here and not earlier.

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
    nmse = result.compute_errors(predict, _get_error(best), train, reader, folder)
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


_EXACT_SCORE = 26.0  # digits; better ones are rounding
_EXACT_ITERATIONS = 150  # without a better law
MIGRATION_INTERVAL = 100  # iterations of an island between two migrations


def build_law_search(task: Task, options: Options, context: system.BuildContext) -> system.BuiltSystem:
    """Builds a run from a folder with `train.csv`. Test files are not opened before the run ends.

    Without an LLM it searches trees and sums of products, or only the latter. With an LLM it does the same beside the
    LLM in the default preset. In the other presets the LLM searches alone.

    Raises:
        SetupError: The folder does not exist, its data is not usable, or scipy is not installed.
    """
    lazy_scipy.check_scipy()
    uses_trees = options.law_search == "trees" and (context.llm is None or options.preset == "default")
    description = task.comment or ""
    path = context.folder / Path(task.data or "").expanduser()
    files = table.find_tables(path)
    reader = table.TableReader(task.target, task.derivative)
    group = read_group(files, reader)
    train = group.tables[0]
    is_single = len(files) == 1
    limits = constraints.Constraints(_get_requirements(task), train)
    folder = path if is_single and path.is_dir() else None  # of the test files

    def finish(evolver: cluster.Evolver) -> Mapping[str, JSON]:
        if not is_single:
            return conclude(evolver, group)
        if context.llm is not None and not uses_trees:
            return equations_to_json(evolver, train, reader, folder)
        return result.to_json(result.conclude(evolver, train, limits), train, reader, folder)

    num_rows = sum(len(item.y) for item in group.tables)
    source_text = str(files[0]) if is_single else f"{len(files)} tables in {path}, with constants for each"
    report: dict[str, JSON] = {
        "data": f"{source_text}: {num_rows:,} rows of {', '.join(train.names)}; target {train.target}",
        "engine": _describe_engine(context.llm is not None, uses_trees),
        "score": "-log10(NMSE): correct digits on the training data",
        "islands": options.num_islands,
    }
    law_search = search.Search(train.rows, train.domain)
    evaluator = None if is_single else GroupEvaluator(group)
    config = make_config(
        train, law_search, options.num_islands, uses_views=uses_trees, limits=limits, evaluator=evaluator
    )
    assert isinstance(config.schedule, cluster.RoundRobin)
    schedule = replace(config.schedule, reset_every=options.reset_evaluations, reset_seconds=options.reset_period)
    config = replace(config, schedule=schedule)
    if context.llm is not None and uses_trees:
        config = _with_formulas(config, train, context.llm, description)
    elif context.llm is not None:
        config = _with_llm(config, train, context.llm, description)
    return system.BuiltSystem(
        config,
        report,
        files,
        "none: laws are data",
        lambda: None,
        finish,
        summarize_candidate=population.FrontSummarizer(),
        is_free=context.llm is not None and uses_trees,
    )


def _get_requirements(task: Task) -> constraints.Requirements:
    return constraints.Requirements(
        task.units, task.monotonic, task.symmetric, task.minimum, task.maximum, task.poles, task.margin
    )


def read_group(files: Sequence[Path], reader: table.TableReader) -> TableGroup:
    """Reads the training tables, largest first.

    Raises:
        SetupError: A table cannot be read, or has other columns.
    """
    tables = sorted(((path.stem, reader.read_train(path)) for path in files), key=lambda item: -len(item[1].y))
    for name, item in tables[1:]:
        if item.names != tables[0][1].names or item.target != tables[0][1].target:
            raise errors.SetupError(
                f"{name} has the columns {', '.join([*item.names, item.target])}, but {tables[0][0]} has "
                f"{', '.join([*tables[0][1].names, tables[0][1].target])}. Use the same columns in all tables."
            )
    return TableGroup([name for name, _ in tables], [item for _, item in tables])


def make_config(
    train: table.Table,
    law_search: search.Search,
    num_islands: int,
    *,
    uses_views: bool = True,
    limits: constraints.Constraints | None = None,
    evaluator: function.CandidateEvaluator | None = None,
) -> cluster.EvolverConfig:
    """Returns the configuration of a law search without budget, seed and journal."""
    evaluator = evaluator or engine.LawEvaluator(
        law_search.rows, train.names, fit.Data(train.names, train.x, train.y), limits
    )
    initial_skeleton = engine.LawSkeleton(law.Law(((),), (float(train.y.mean()),)), train.names)
    initial = function.DefaultFunction(function.DefaultFunctionProps(initial_skeleton, candidate_evaluator=evaluator))
    data_views = views.find_views(law_search.rows.columns, law_search.rows.target) if uses_views else []
    if limits is not None and limits.has_units:
        data_views = [view for view in data_views if all(map(limits.has_consistent_units, view.variables))]
    proposer = engine.LawMutator(law_search.rows, law_search, train.names, data_views, limits)
    make_population = partial(population.make_population, num_views=len(data_views))
    islands = cluster.IslandConfig(num_islands, 2, initial, proposer, make_population=make_population)
    schedule = cluster.RoundRobin(num_islands, migrate_every=MIGRATION_INTERVAL * num_islands)
    return cluster.EvolverConfig(islands, schedule=schedule, stop_rules=[stop_at_exact_law])


def stop_at_exact_law(progress: control.RunProgress) -> str | None:
    """Stops some time after an exact law was found. A smaller one may still be found in that time."""
    if progress.best_score is None or progress.best_score < _EXACT_SCORE:
        return None
    is_stale = progress.applied_count - progress.last_improved_at >= _EXACT_ITERATIONS
    return "an exact law was found" if is_stale else None


def _describe_engine(has_llm: bool, uses_trees: bool) -> str:
    if has_llm:
        return "expression trees, sums of products and an LLM" if uses_trees else "LLM, with fitted constants"
    return "expression trees and sums of products, no LLM" if uses_trees else "sums of products, no LLM"


def _with_formulas(
    config: cluster.EvolverConfig, train: table.Table, language_model: llm.LLM, description: str
) -> cluster.EvolverConfig:
    """Returns the configuration with an LLM that proposes formulas beside the search."""
    law_search = config.island_config.mutation_engine
    assert isinstance(law_search, engine.LawMutator)
    proposer = formulas.FormulaMutator(law_search, language_model, train, description)
    return replace(config, island_config=replace(config.island_config, mutation_engine=proposer))


def _with_llm(
    config: cluster.EvolverConfig, train: table.Table, language_model: llm.LLM, description: str
) -> cluster.EvolverConfig:
    """Returns the configuration with an LLM that writes equations; the evaluator fits their constants."""
    text = make_initial_equation(train.names, train.target)
    initial = config.island_config.initial_fn.clone(function.PyAstSkeleton(text, {"np": np}))
    docstring = next(source.parse_functions(text)).docstring
    comment = describe_equation(train.names, train.target, description)
    llm_engine = PyMutationEngine(comment, docstring, language_model)
    return replace(config, island_config=replace(config.island_config, initial_fn=initial, mutation_engine=llm_engine))
