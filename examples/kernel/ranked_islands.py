"""Islands with different fitness: one delivery route, ranked by the driver and by the customers.

A candidate is the order in which a driver visits ten customers. Its evaluation measures the length of the route and the
mean waiting time of a customer. The first island ranks by length, the second by waiting time, and the third by both.
Every 60 iterations the best route of each island migrates to the next. There it gets a new fitness from the same
metrics, without a new evaluation.

Parts: `IslandConfig.fitness` from the metrics of one evaluation; `RoundRobin` with migration; one bounded
`TournamentCluster` per island; `gate.reject_duplicates`, which rejects copies of the parent.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import dist
from random import Random
from typing import Any

from atoll import archipelago, cluster, control, evaluation, function, gate, journal, store

DEPOT = (0, 0)
CUSTOMERS = {
    "A": (1, 2), "B": (2, 1), "C": (3, 2), "D": (2, 3), "E": (4, 1),
    "F": (12, 1), "G": (-3, -2), "H": (-5, -3), "I": (7, -6), "J": (-2, 9),
}  # fmt: skip
OBJECTIVES = ("the driver", "the customers", "both")


class Meter:
    """Measures routes and records them."""

    def __init__(self) -> None:
        self.measured: list[str] = []

    def __call__(self, skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
        self.measured.append(str(skeleton))
        stops = [DEPOT, *(CUSTOMERS[name] for name in str(skeleton))]
        arrivals = list(accumulate(dist(first, second) for first, second in pairwise(stops)))
        length, waiting = arrivals[-1] + dist(stops[-1], DEPOT), sum(arrivals) / len(arrivals)
        return evaluation.Evaluation(-length - waiting, metrics={"length": length, "waiting": waiting})


def rank(island: int, result: evaluation.Evaluation) -> float:
    """Returns the fitness of a route on an island; higher is better."""
    length, waiting = result.metrics["length"], result.metrics["waiting"]
    return -(length, waiting, length + waiting)[island]


class Reverser:
    """Reverses a part of the route."""

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        parent = context.parents[-1]
        stops = str(parent.skeleton())
        start, end = sorted(context.rng.sample(range(len(stops) + 1), 2))
        return [parent.clone(function.Text(stops[:start] + stops[start:end][::-1] + stops[end:]))]


def make_population(island: int, rng: Random, announce: cluster.ClusterProfilers) -> archipelago.Population:
    members = cluster.TournamentCluster(rng, announce, limit=20, tournament_size=3)
    return cluster.NichedPopulation(
        cluster.single_niche, lambda key: members, cluster.WeightSelector(rng), num_parents=1
    )


def build(meter: Meter, steps: int = 900, *, seed: int = 0, records: journal.Journal | None = None) -> cluster.Evolver:
    start = function.Text("".join(CUSTOMERS))
    initial = function.DefaultFunction(function.DefaultFunctionProps(start, candidate_evaluator=meter))
    config = cluster.EvolverConfig(
        cluster.IslandConfig(
            len(OBJECTIVES),
            1,
            initial,
            Reverser(),
            fitness=rank,
            prefilter=gate.reject_duplicates,
            make_population=make_population,
        ),
        schedule=cluster.RoundRobin(len(OBJECTIVES), migrate_every=60),
        journal=records or journal.NullJournal(),
        budget=control.Budget(iterations=steps),
        seed=seed,
        ordered=True,
    )
    return cluster.Evolver(config)


def main() -> None:
    meter, records = Meter(), store.MemoryJournal()
    evolver = build(meter, records=records)
    evolver.run()
    for objective, island in zip(OBJECTIVES, evolver.islands, strict=True):
        best = island.best_fn()
        assert best.evaluation is not None
        length, waiting = best.evaluation.metrics["length"], best.evaluation.metrics["waiting"]
        print(f"best for {objective:13}  {best.skeleton()}  length {length:.1f}, waiting {waiting:.1f}")
    num_migrants = sum(record.kind == "migrated" for record in records.read())
    print(f"{len(meter.measured)} routes measured once each; {num_migrants} migrants ranked by their new island")


if __name__ == "__main__":
    main()
