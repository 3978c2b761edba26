"""MAP-Elites and a Pareto front in one pool: what to pack, for every weight, every price and every trip.

A candidate is a bag: a list of things, judged on three trips. Two questions are asked at once. What is the best bag of
about this weight and price: a cell of a map? What is the best bag for this trip, whatever it is like on the others: a
place on the front? A bag enters its cell and the niche of every trip, and each niche keeps its own best; so one bag may
sit in several niches, and one that is poor on average lives on where it is the best.

Parts: `Niches` under two keys at once, the `Bins` of two features and `by_instance`; `EliteCluster`s, each with its
own measure; a `WeightChooser` that draws all niches alike; an engine that makes three children in one call.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from random import Random
from typing import Any

from atoll import archipelago, cluster, control, evaluation, function, journal

TRIPS = ("beach", "mountain", "city")
THINGS = {  # kilograms, euros, use on each trip
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
BURDEN = (0.2, 0.5, 0.4)  # what a squared kilogram takes off on each trip


def judge(skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
    """Scores each trip by the use of the things, less the burden of carrying them."""
    packed = [THINGS[name] for name in names_in(skeleton)]
    kilograms, euros = sum(each[0] for each in packed), sum(each[1] for each in packed)
    uses = [sum(each[2][trip] for each in packed) for trip in range(len(TRIPS))]
    scores = tuple(use - burden * kilograms**2 for use, burden in zip(uses, BURDEN, strict=True))
    return evaluation.Evaluation(sum(scores) / len(scores), scores, {"kilograms": kilograms, "euros": euros})


def names_in(bag: object) -> list[str]:
    return [name for name in str(bag).split(", ") if name]


class Packer:
    """Makes three bags from two: one thing more, one thing less, and a mix."""

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        other, bag = (names_in(fn.skeleton()) for fn in (context.parents[0], context.parents[-1]))
        more = {*bag, context.rng.choice(list(THINGS))}
        less = {*bag} - {context.rng.choice(bag)} if bag else set[str]()
        mixed = {name for name in [*bag, *other] if context.rng.random() < 0.5}
        return [context.parents[-1].clone(function.Text(", ".join(sorted(each)))) for each in (more, less, mixed)]


class CellAndTrips:
    """Says in which niches a bag lives: ("cell", weight, price), and ("trip", n) for each trip."""

    def __init__(self) -> None:
        self._cells = cluster.FeatureBins([metric("kilograms"), metric("euros")], num_bins=4)

    @property
    def generation(self) -> int:  # rises when the map grows; then the pool asks for all keys anew
        return self._cells.generation

    def __call__(self, fn: function.Function) -> Sequence[Hashable]:
        cell = [("cell", *key) for key in self._cells(fn) if isinstance(key, tuple)]
        return [*cell, *(("trip", trip) for trip in cluster.by_instance(fn))]


def metric(name: str) -> Callable[[function.Function], float]:
    return lambda fn: fn.evaluation.metrics[name] if fn.evaluation else 0.0


def measure_of(key: Any) -> Callable[[function.Function], float]:
    """Returns by what a niche compares: its trip alone, or in a cell the mean of all."""
    if key[0] == "cell":
        return function.get_fitness
    return lambda fn: fn.evaluation.scores[key[1]] if fn.evaluation else 0.0


def make_pool(island: int, rng: Random, announce: cluster.ClusterProfilers) -> archipelago.Population:
    def make_cluster(key: Any) -> cluster.ListableCluster:
        return cluster.EliteCluster(rng, announce, value=measure_of(key))

    return cluster.NichedPopulation(CellAndTrips(), make_cluster, cluster.WeightSelector(rng), num_parents=2)


def build(steps: int = 500, *, seed: int = 0, records: journal.Journal | None = None) -> cluster.Evolver:
    start = function.DefaultFunction(function.DefaultFunctionProps(function.Text(""), candidate_evaluator=judge))
    config = cluster.EvolverConfig(
        cluster.IslandConfig(1, 2, start, Packer(), make_population=make_pool),
        reset_period=None,
        journal=records or journal.NullJournal(),
        budget=control.Budget(iterations=steps),
        seed=seed,
        ordered=True,
    )
    return cluster.Evolver(config)


def elites(evolver: cluster.Evolver) -> Mapping[Any, function.Function]:
    """Returns the best of every niche."""
    pool = evolver.islands[0].population
    assert isinstance(pool, cluster.NichedPopulation)
    return {key: niche.best_fn() for key, niche in pool.clusters.items()}


def main() -> None:
    evolver = build()
    evolver.run()
    print(f"{evolver.usage.iterations} steps, {evolver.usage.evaluations} bags judged; the best of each niche:")
    for key, fn in sorted(elites(evolver).items()):
        name = f"for the {TRIPS[key[1]]}" if key[0] == "trip" else f"cell {key[1]}, {key[2]}"
        size = f"{metric('kilograms')(fn):.1f} kg, {metric('euros')(fn):.0f} EUR"
        print(f"{name:17} {size:>15}  use {measure_of(key)(fn):5.2f}  {fn.skeleton()}")


if __name__ == "__main__":
    main()
