"""Puts the parts of a playbook together; the only file here that knows them all."""

from collections.abc import Callable
from random import Random
from typing import Any

from atoll import archipelago, cluster, function, llm, versions
from atoll.playbook.config import Config
from atoll.playbook.curator import Curator
from atoll.playbook.experience import Experience, Reflector, Tagging
from atoll.playbook.insight import Asking
from atoll.playbook.playbook import Playbook
from atoll.playbook.step import Checks, Reflecting, curated
from atoll.playbook.store import KEY, Store


def make_store(kept: versions.Versions, *, key: str = KEY, config: Config | None = None) -> Store:
    """Returns a playbook that is kept among versions, by the settings given."""
    return Store(kept, key=key, curator=Curator(config))


def make_reflector(model: llm.LLM | None = None) -> Reflector:
    """Returns who draws lessons: a model, or without one plain rules."""
    return Tagging() if model is None else Asking(model)


def make_island(
    kept: versions.Versions,
    run: str,
    experience: Callable[[int, Playbook], Experience | None],
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
    judge = Checks(curator)
    initial = function.DefaultFunction(function.DefaultFunctionProps(function.Text(Playbook().dump()), judge=judge))
    head = cluster.Head(kept, key, initial, function.Text, run=run)

    def make_pool(island: int, rng: Random, announce: Any) -> archipelago.Pool:
        return head

    engine = Reflecting(reflector or Tagging(), curator, experience)
    return cluster.IslandConfig(1, 1, initial, engine, gate=curated, make_pool=make_pool)
