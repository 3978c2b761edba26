"""How a run looks for its children: by evolution, or in one of the plain ways that evolution is compared with."""

from dataclasses import replace
from random import Random

from atoll import archipelago, cluster, config, function, gate, system


class FromStart(cluster.Niches):
    """A pool that offers the start alone: what comes of it is best-of-N, the plainest baseline."""

    _first: function.Function | None = None

    def add_fn(self, fn: function.Function, decision: gate.Decision) -> gate.Decision:
        self._first = self._first or fn
        return super().add_fn(fn, decision)

    def pick(self) -> archipelago.Pick:
        return super().pick() if self._first is None else archipelago.Pick((self._first,))


def changed(method: config.Method, built: system.Built) -> system.Built:
    """Returns a run's parts as its method needs them.

    `best_of_n`: every child is made from the start, which sees no other and hears of none. `sequential`: every child is
    made from the best so far, with what the engine remembers. Both have one island, and ask a model where there is one
    and nothing else.
    """
    if method == "evolve":
        return built
    islands = built.config.island_config
    engine = built.plain or islands.mutation_engine
    alone = replace(islands, num_islands=1, mutation_engine=engine, make_pool=_POOLS[method])
    learner = None if method == "best_of_n" else built.config.learner
    made = replace(built.config, island_config=alone, schedule=cluster.RoundRobin(1), learner=learner)
    said = {"method": "every child from the start" if method == "best_of_n" else "every child from the best so far"}
    told = {title: value for title, value in built.report.items() if title not in _ELSEWHERE}
    return built._replace(config=made, report={**told, **said})


_ELSEWHERE = ("islands", "parents", "pool", "migration", "reset", "clusters", "preset")  # what only evolution has


def _from_start(island: int, rng: Random, announce: cluster.Announce) -> cluster.Niches:
    return FromStart(cluster.everyone, lambda key: cluster.EliteCluster(rng, announce), cluster.WeightChooser(rng))


def from_best(island: int, rng: Random, announce: cluster.Announce) -> cluster.Niches:
    """Returns a pool that keeps and offers the best alone: what comes of it is sequential conditioning."""
    return cluster.Niches(cluster.everyone, lambda key: cluster.EliteCluster(rng, announce), cluster.WeightChooser(rng))


_POOLS: dict[str, cluster.MakePool] = {"best_of_n": _from_start, "sequential": from_best}
