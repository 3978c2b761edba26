"""How a run looks for its children: by evolution, or in one of the plain ways that evolution is compared with."""

from dataclasses import replace
from random import Random

from atoll import archipelago, cluster, config, function, gate, system


class BestOfNPopulation(cluster.NichedPopulation):
    """A pool that offers the start alone: what comes of it is best-of-N, the plainest baseline."""

    _initial: function.Function | None = None

    def add_fn(self, fn: function.Function, decision: gate.Decision) -> gate.Decision:
        self._initial = self._initial or fn
        return super().add_fn(fn, decision)

    def select(self) -> archipelago.Selection:
        return super().select() if self._initial is None else archipelago.Selection((self._initial,))


def apply_method(method: config.Method, built_system: system.BuiltSystem) -> system.BuiltSystem:
    """Returns a run's parts as its method needs them.

    `best_of_n`: every child is made from the start, which sees no other and hears of none. `sequential`: every child is
    made from the best so far, with what the engine remembers. Both have one island, and ask a model where there is one
    and nothing else.
    """
    if method == "evolve":
        return built_system
    islands = built_system.config.island_config
    engine = built_system.baseline_proposer or islands.mutation_engine
    single_island = replace(islands, num_islands=1, mutation_engine=engine, make_population=_POPULATIONS[method])
    learner = None if method == "best_of_n" else built_system.config.learner
    evolver_config = replace(
        built_system.config, island_config=single_island, schedule=cluster.RoundRobin(1), learner=learner
    )
    method_report = {
        "method": "every child from the start" if method == "best_of_n" else "every child from the best so far"
    }
    base_report = {title: value for title, value in built_system.report.items() if title not in _EVOLVE_ONLY}
    return built_system._replace(config=evolver_config, report={**base_report, **method_report})


_EVOLVE_ONLY = (
    "islands",
    "parents",
    "population",
    "strategies",
    "migration",
    "reset",
    "clusters",
    "preset",
)  # what only evolution has


def _make_best_of_n_population(
    island: int, rng: Random, announce: cluster.ClusterProfilers
) -> cluster.NichedPopulation:
    return BestOfNPopulation(
        cluster.single_niche, lambda key: cluster.EliteCluster(rng, announce), cluster.WeightSelector(rng)
    )


def make_sequential_population(
    island: int, rng: Random, announce: cluster.ClusterProfilers
) -> cluster.NichedPopulation:
    """Returns a pool that keeps and offers the best alone: what comes of it is sequential conditioning."""
    return cluster.NichedPopulation(
        cluster.single_niche, lambda key: cluster.EliteCluster(rng, announce), cluster.WeightSelector(rng)
    )


_POPULATIONS: dict[str, cluster.MakePopulation] = {
    "best_of_n": _make_best_of_n_population,
    "sequential": make_sequential_population,
}
