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

MIGRATE_EVERY = 100  # steps of an island between two swims of its front's best


def build(data: str, num_islands: int, parts: system.Parts) -> system.Built:
    """Makes the parts of a run from a folder with `train.csv`; test files are not opened before the run is over.

    Raises:
        SetupError: There is no such folder, or its data cannot be learnt from.
    """
    folder = parts.folder / Path(data).expanduser()
    if not folder.is_dir():
        raise errors.SetupError(f"{folder} is no folder: task.data must name one with {table.TRAIN}.")
    train = table.read_train(folder / table.TRAIN)

    def finish(evolver: cluster.Evolver) -> Mapping[str, JSON]:
        if parts.llm is not None:
            return skeletons.told(evolver, train, folder)
        return result.told(result.conclude(evolver, train), train, folder)

    report: dict[str, JSON] = {
        "data": f"{folder / table.TRAIN}: {len(train.y):,} rows of {', '.join(train.names)}; target {train.target}",
        "engine": "sums of products, no LLM" if parts.llm is None else "LLM; the constants of its equations are fitted",
        "score": "digits of the training data that a law gets right: -log10(NMSE)",
        "islands": num_islands,
    }
    searched = search.Search(train.rows, train.domain)
    config = config_of(train, searched, num_islands)
    if parts.llm is not None:
        config = _asking(config, train, parts.llm)
    return system.Built(config, report, [folder / table.TRAIN], "none: laws are data", lambda: None, finish)


def config_of(train: table.Table, searched: search.Search, num_islands: int) -> cluster.EvolverConfig:
    """Returns all that a search needs but budget, seed and journal."""
    judge = engine.LawJudge(searched.rows, train.names, fit.Data(train.names, train.x, train.y))
    start = engine.Written(law.Law(((),), (float(train.y.mean()),)), train.names)
    initial = function.DefaultFunction(function.DefaultFunctionProps(start, judge=judge))
    proposer = engine.LawEngine(searched, train.names)
    islands = cluster.IslandConfig(num_islands, 2, initial, proposer, make_pool=pool.make_pool)
    schedule = cluster.RoundRobin(num_islands, migrate_every=MIGRATE_EVERY * num_islands)
    return cluster.EvolverConfig(islands, schedule=schedule)


def _asking(config: cluster.EvolverConfig, train: table.Table, model: llm.LLM) -> cluster.EvolverConfig:
    """Lets a model write the equations; the judge fits their constants."""
    text = skeletons.start(train.names, train.target)
    first = config.island_config.initial_fn.clone(function.PyAstSkeleton(text, {"np": np}))
    document = next(source.functions(text)).docstring
    asked = PyMutationEngine(skeletons.comment(train.names, train.target), document, model)
    return replace(config, island_config=replace(config.island_config, initial_fn=first, mutation_engine=asked))
