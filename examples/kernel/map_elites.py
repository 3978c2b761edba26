"""MAP-Elites and a Pareto front in one population: bags for every weight, price and trip.

A candidate is a bag: a list of items with a score for each of three trips. A cell of the map holds the best bag of
about one weight and price. The niche of a trip holds the best bag for that trip. A bag enters its cell and the niche of
every trip, and each niche keeps its own best. So one bag may be in several niches, and a bag with a poor mean survives
where it is the best.

Parts: `NichedPopulation` with two kinds of keys, `FeatureBins` of two features and `by_instance`; `EliteCluster`, each
with its own value; a `WeightSelector` that draws all niches equally; a proposer that makes three children per call.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from random import Random
from typing import Any

from atoll import archipelago, cluster, control, evaluation, function, journal

TRIPS = ("beach", "mountain", "city")
ITEMS = {  # kilograms, euros, use on each trip
    "boots": (1.2, 140, (0, 6, 1)),
    "camera": (0.9, 400, (3, 4, 6)),
    "cool box": (2.2, 50, (6, 0, 0)),
    "guide": (0.3, 18, (0, 1, 4)),
    "map": (0.1, 9, (0, 4, 1)),
    "novel": (0.3, 12, (4, 1, 2)),
    "rope": (1.5, 60, (0, 5, 0)),
    "stove": (0.8, 45, (1, 4, 0)),
    "suit": (1.1, 250, (0, 0, 5)),
    "tent": (2.5, 120, (1, 7, 0)),
    "towel": (0.4, 15, (5, 1, 0)),
    "umbrella": (0.5, 20, (2, 0, 3)),
}
BURDEN = (0.2, 0.5, 0.4)  # penalty per squared kilogram on each trip


def evaluate(skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
    """Scores each trip by the use of the items minus a penalty for their weight."""
    packed = [ITEMS[name] for name in parse_names(skeleton)]
    kilograms, euros = sum(item[0] for item in packed), sum(item[1] for item in packed)
    uses = [sum(item[2][trip] for item in packed) for trip in range(len(TRIPS))]
    scores = tuple(use - burden * kilograms**2 for use, burden in zip(uses, BURDEN, strict=True))
    return evaluation.Evaluation(sum(scores) / len(scores), scores, {"kilograms": kilograms, "euros": euros})


def parse_names(bag: object) -> list[str]:
    return [name for name in str(bag).split(", ") if name]


class Packer:
    """Makes three bags from two: one item more, one item less, and a mix."""

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        other, bag = (parse_names(fn.skeleton()) for fn in (context.parents[0], context.parents[-1]))
        more = {*bag, context.rng.choice(list(ITEMS))}
        less = {*bag} - {context.rng.choice(bag)} if bag else set[str]()
        mixed = {name for name in [*bag, *other] if context.rng.random() < 0.5}
        return [context.parents[-1].clone(function.Text(", ".join(sorted(names)))) for names in (more, less, mixed)]


class CellAndTrips:
    """Returns the niches of a bag: ("cell", weight, price), and ("trip", n) for each trip."""

    def __init__(self) -> None:
        self._cells = cluster.FeatureBins([make_metric("kilograms"), make_metric("euros")], num_bins=4)

    @property
    def generation(self) -> int:  # rises when the map grows; then the population computes all keys again
        return self._cells.generation

    def __call__(self, fn: function.Function) -> Sequence[Hashable]:
        cell = [("cell", *key) for key in self._cells(fn) if isinstance(key, tuple)]
        return [*cell, *(("trip", trip) for trip in cluster.by_instance(fn))]


def make_metric(name: str) -> Callable[[function.Function], float]:
    return lambda fn: fn.evaluation.metrics[name] if fn.evaluation else 0.0


def make_value(key: Any) -> Callable[[function.Function], float]:
    """Returns the value by which a niche compares bags: the score of its trip, or in a cell the mean score."""
    if key[0] == "cell":
        return function.get_fitness
    return lambda fn: fn.evaluation.scores[key[1]] if fn.evaluation else 0.0


def make_population(island: int, rng: Random, announce: cluster.ClusterProfilers) -> archipelago.Population:
    def make_cluster(key: Any) -> cluster.ListableCluster:
        return cluster.EliteCluster(rng, announce, value=make_value(key))

    return cluster.NichedPopulation(CellAndTrips(), make_cluster, cluster.WeightSelector(rng), num_parents=2)


def build(steps: int = 500, *, seed: int = 0, records: journal.Journal | None = None) -> cluster.Evolver:
    initial = function.DefaultFunction(function.DefaultFunctionProps(function.Text(""), candidate_evaluator=evaluate))
    config = cluster.EvolverConfig(
        cluster.IslandConfig(1, 2, initial, Packer(), make_population=make_population),
        reset_period=None,
        journal=records or journal.NullJournal(),
        budget=control.Budget(iterations=steps),
        seed=seed,
        ordered=True,
    )
    return cluster.Evolver(config)


def elites(evolver: cluster.Evolver) -> Mapping[Any, function.Function]:
    """Returns the best bag of every niche."""
    population = evolver.islands[0].population
    assert isinstance(population, cluster.NichedPopulation)
    return {key: niche.best_fn() for key, niche in population.clusters.items()}


def main() -> None:
    evolver = build()
    evolver.run()
    print(f"{evolver.usage.iterations} iterations, {evolver.usage.evaluations} evaluations. Best bag of each niche:")
    for key, fn in sorted(elites(evolver).items()):
        name = f"for the {TRIPS[key[1]]}" if key[0] == "trip" else f"cell {key[1]}, {key[2]}"
        size = f"{make_metric('kilograms')(fn):.1f} kg, {make_metric('euros')(fn):.0f} EUR"
        print(f"{name:17} {size:>15}  use {make_value(key)(fn):5.2f}  {fn.skeleton()}")


if __name__ == "__main__":
    main()
