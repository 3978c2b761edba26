"""Puts a search for laws together: an archipelago whose functions are laws and whose judge is the training data."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from atoll import cluster, errors, function, llm, system
from atoll.candidate import JSON
from atoll.llmsr import fit, source
from atoll.llmsr.engine import PyMutationEngine
from atoll.llmsr.laws import engine, law, pool, result, search, skeletons, table

MIGRATION_INTERVAL = 100  # steps of an island between two swims of its front's best


def build(data: str, num_islands: int, context: system.BuildContext) -> system.BuiltSystem:
    """Makes the parts of a run from a folder with `train.csv`; test files are not opened before the run is over.

    Raises:
        SetupError: There is no such folder, or its data cannot be learnt from.
    """
    folder = context.folder / Path(data).expanduser()
    if not folder.is_dir():
        raise errors.SetupError(f"{folder} is no folder: task.data must name one with {table.TRAIN_FILE}.")
    train = table.read_train(folder / table.TRAIN_FILE)

    def finish(evolver: cluster.Evolver) -> Mapping[str, JSON]:
        if context.llm is not None:
            return skeletons.equations_to_json(evolver, train, folder)
        return result.to_json(result.conclude(evolver, train), train, folder)

    report: dict[str, JSON] = {
        "data": f"{folder / table.TRAIN_FILE}: {len(train.y):,} rows of {', '.join(train.names)}; target {train.target}",
        "engine": "sums of products, no LLM" if context.llm is None else "LLM; the constants of its equations are fitted",
        "score": "digits of the training data that a law gets right: -log10(NMSE)",
        "islands": num_islands,
    }
    law_search = search.Search(train.rows, train.domain)
    config = make_config(train, law_search, num_islands)
    if context.llm is not None:
        config = _with_llm(config, train, context.llm)
    return system.BuiltSystem(config, report, [folder / table.TRAIN_FILE], "none: laws are data", lambda: None, finish)


def make_config(train: table.Table, law_search: search.Search, num_islands: int) -> cluster.EvolverConfig:
    """Returns all that a search needs but budget, seed and journal."""
    evaluator = engine.LawEvaluator(law_search.rows, train.names, fit.Data(train.names, train.x, train.y))
    initial_skeleton = engine.LawSkeleton(law.Law(((),), (float(train.y.mean()),)), train.names)
    initial = function.DefaultFunction(function.DefaultFunctionProps(initial_skeleton, candidate_evaluator=evaluator))
    proposer = engine.LawMutator(law_search, train.names)
    islands = cluster.IslandConfig(num_islands, 2, initial, proposer, make_population=pool.make_population)
    schedule = cluster.RoundRobin(num_islands, migrate_every=MIGRATION_INTERVAL * num_islands)
    return cluster.EvolverConfig(islands, schedule=schedule)


def _with_llm(config: cluster.EvolverConfig, train: table.Table, language_model: llm.LLM) -> cluster.EvolverConfig:
    """Lets a model write the equations; the judge fits their constants."""
    text = skeletons.make_initial_equation(train.names, train.target)
    initial = config.island_config.initial_fn.clone(function.PyAstSkeleton(text, {"np": np}))
    docstring = next(source.parse_functions(text)).docstring
    llm_engine = PyMutationEngine(skeletons.describe_equation(train.names, train.target), docstring, language_model)
    return replace(config, island_config=replace(config.island_config, initial_fn=initial, mutation_engine=llm_engine))
