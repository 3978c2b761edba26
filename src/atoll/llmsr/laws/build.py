"""Builds a law search, without an LLM or with one that writes equations."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from atoll import cluster, control, errors, function, llm, system
from atoll.candidate import JSON
from atoll.llmsr import fit, source
from atoll.llmsr.config import Options, Task
from atoll.llmsr.laws import constraints, engine, formulas, law, population, result, search, table, table_group, views
from atoll.llmsr.laws.factor import Array
from atoll.llmsr.mutation_engine import PyMutationEngine


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
        SetupError: The folder does not exist, or its data is not usable.
    """
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
            return table_group.conclude(evolver, group)
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
    evaluator = None if is_single else table_group.GroupEvaluator(group)
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
    )


def _get_requirements(task: Task) -> constraints.Requirements:
    return constraints.Requirements(
        task.units, task.monotonic, task.symmetric, task.minimum, task.maximum, task.poles, task.margin
    )


def read_group(files: Sequence[Path], reader: table.TableReader) -> table_group.TableGroup:
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
    return table_group.TableGroup([name for name, _ in tables], [item for _, item in tables])


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
