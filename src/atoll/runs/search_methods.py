"""Search methods of a run: evolution, and the baselines best-of-N and sequential."""

from dataclasses import replace
from random import Random

from atoll import archipelago, cluster, config, function, gate, system


class BestOfNPopulation(cluster.NichedPopulation):
    """A population that always selects the initial candidate, for best-of-N."""

    _initial: function.Function | None = None

    def add_fn(self, fn: function.Function, decision: gate.Decision) -> gate.Decision:
        self._initial = self._initial or fn
        return super().add_fn(fn, decision)

    def select(self) -> archipelago.Selection:
        return super().select() if self._initial is None else archipelago.Selection((self._initial,))


def apply_method(method: config.Method, built_system: system.BuiltSystem) -> system.BuiltSystem:
    """Changes a built system for a search method.

    `best_of_n` makes every child from the initial candidate, without memory. `sequential` makes every child from the
    best so far, with the memory of the mutator. Both have one island and use only the LLM if the run has one.
    """
    if method == "evolve":
        return built_system
    islands = built_system.config.island_config
    proposer = built_system.baseline_proposer or islands.mutation_engine
    single_island = replace(islands, num_islands=1, mutation_engine=proposer, make_population=_POPULATIONS[method])
    learner = None if method == "best_of_n" else built_system.config.learner
    evolver_config = replace(
        built_system.config, island_config=single_island, schedule=cluster.RoundRobin(1), learner=learner
    )
    parent = "initial candidate" if method == "best_of_n" else "best candidate so far"
    method_report = {"method": f"every child from the {parent}"}
    base_report = {title: value for title, value in built_system.report.items() if title not in _EVOLVE_ONLY}
    return built_system._replace(config=evolver_config, report={**base_report, **method_report})


# Report titles that only evolution has.
_EVOLVE_ONLY = ("islands", "parents", "population", "strategies", "migration", "reset", "clusters", "preset")


def _make_best_of_n_population(
    island: int, rng: Random, announce: cluster.ClusterProfilers
) -> cluster.NichedPopulation:
    return _make_single_niche(BestOfNPopulation, rng, announce)


def make_sequential_population(
    island: int, rng: Random, announce: cluster.ClusterProfilers
) -> cluster.NichedPopulation:
    """Returns a population that keeps only the best candidate, for sequential conditioning."""
    return _make_single_niche(cluster.NichedPopulation, rng, announce)


def _make_single_niche(
    population_class: type[cluster.NichedPopulation], rng: Random, announce: cluster.ClusterProfilers
) -> cluster.NichedPopulation:
    selector = cluster.WeightSelector(rng)
    return population_class(cluster.single_niche, lambda key: cluster.EliteCluster(rng, announce), selector)


_POPULATIONS: dict[str, cluster.MakePopulation] = {
    "best_of_n": _make_best_of_n_population,
    "sequential": make_sequential_population,
}
