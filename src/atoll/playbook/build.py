"""Puts the parts of a playbook together; the only file here that knows them all."""

from collections.abc import Callable
from random import Random
from typing import Any

from atoll import archipelago, cluster, function, llm, versions
from atoll.playbook.config import Config
from atoll.playbook.curator import Curator
from atoll.playbook.experience import Experience, Reflector, TaggingReflector
from atoll.playbook.insight import LLMReflector
from atoll.playbook.playbook import Playbook
from atoll.playbook.step import DeltaEvaluator, ReflectorProposer, make_curator_gate
from atoll.playbook.store import KEY, PlaybookStore


def make_store(version_store: versions.Versions, *, key: str = KEY, config: Config | None = None) -> PlaybookStore:
    """Returns a playbook that is kept among versions, by the settings given."""
    return PlaybookStore(version_store, key=key, curator=Curator(config))


def make_reflector(model: llm.LLM | None = None) -> Reflector:
    """Returns who draws lessons: a model, or without one plain rules."""
    return TaggingReflector() if model is None else LLMReflector(model)


def make_island(
    version_store: versions.Versions,
    run: str,
    get_experience: Callable[[int, Playbook], Experience | None],
    *,
    key: str = KEY,
    reflector: Reflector | None = None,
    config: Config | None = None,
) -> cluster.IslandConfig:
    """Returns an island whose steps are ACE turns, to be given to a `cluster.Evolver` with one step in flight.

    Args:
        kept: Where the playbook is.
        run: The run's id; a step that runs again after a crash finds its own version by it.
        experience: What was gone through in a step.
        key: Which playbook.
        reflector: Who draws lessons; None: plain rules.
        config: What the curator goes by.
    """
    curator = Curator(config)
    evaluator = DeltaEvaluator(curator)
    initial = function.DefaultFunction(function.DefaultFunctionProps(function.Text(Playbook().dump()), candidate_evaluator=evaluator))
    population = cluster.VersionedPopulation(version_store, key, initial, function.Text, run_id=run)

    def make_population(island: int, rng: Random, announce: Any) -> archipelago.Population:
        return population

    proposer = ReflectorProposer(reflector or TaggingReflector(), curator, get_experience)
    return cluster.IslandConfig(1, 1, initial, proposer, gate=make_curator_gate, make_population=make_population)
