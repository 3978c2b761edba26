"""Islands that want different things: one delivery round, ranked by the driver and by the customers.

A candidate is the order in which a driver visits ten customers. Judging it measures two things once: how long the
round is, and how long a customer waits on average. The driver's island ranks by the first, the customers' island by
the second, and the third weighs both. Every 60 steps the best round of each island swims to the next. There the
migrant is ranked by its host's measure; it is not judged again, because its measurements came along.

Parts: `IslandConfig.rank` over the metrics of one evaluation; `RoundRobin` with migration; one bounded `PoolCluster`
per island, with a tournament for each parent; `gate.novel` keeps copies of the parent out of it.
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
WISHES = ("the driver", "the customers", "both")


class Meter:
    """Measures a round, and notes which it was asked to measure."""

    def __init__(self) -> None:
        self.measured: list[str] = []

    def __call__(self, skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
        self.measured.append(str(skeleton))
        stops = [DEPOT, *(CUSTOMERS[name] for name in str(skeleton))]
        arrivals = list(accumulate(dist(here, there) for here, there in pairwise(stops)))
        length, waiting = arrivals[-1] + dist(stops[-1], DEPOT), sum(arrivals) / len(arrivals)
        return evaluation.Evaluation(-length - waiting, metrics={"length": length, "waiting": waiting})


def rank(island: int, found: evaluation.Evaluation) -> float:
    """Returns what a round is worth on an island: the higher, the better."""
    length, waiting = found.metrics["length"], found.metrics["waiting"]
    return -(length, waiting, length + waiting)[island]


class Reverser:
    """Drives a part of the round the other way about."""

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        parent = context.parents[-1]
        stops = str(parent.skeleton())
        start, end = sorted(context.rng.sample(range(len(stops) + 1), 2))
        return [parent.clone(function.Text(stops[:start] + stops[start:end][::-1] + stops[end:]))]


def make_pool(island: int, rng: Random, announce: cluster.ClusterProfilers) -> archipelago.Population:
    bounded = cluster.TournamentCluster(rng, announce, limit=20, tournament_size=3)
    return cluster.NichedPopulation(
        cluster.single_niche, lambda key: bounded, cluster.WeightSelector(rng), num_parents=1
    )


def build(meter: Meter, steps: int = 900, *, seed: int = 0, records: journal.Journal | None = None) -> cluster.Evolver:
    start = function.Text("".join(CUSTOMERS))
    initial = function.DefaultFunction(function.DefaultFunctionProps(start, candidate_evaluator=meter))
    config = cluster.EvolverConfig(
        cluster.IslandConfig(
            len(WISHES),
            1,
            initial,
            Reverser(),
            fitness=rank,
            prefilter=gate.reject_duplicates,
            make_population=make_pool,
        ),
        schedule=cluster.RoundRobin(len(WISHES), migrate_every=60),
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
    for wish, island in zip(WISHES, evolver.islands, strict=True):
        best = island.best_fn()
        assert best.evaluation is not None
        length, waiting = best.evaluation.metrics["length"], best.evaluation.metrics["waiting"]
        print(f"best for {wish:13}  {best.skeleton()}  length {length:.1f}, waiting {waiting:.1f}")
    num_migrants = sum(record.kind == "migrated" for record in records.read())
    print(f"{len(meter.measured)} rounds were measured, once each; {num_migrants} swam over and were ranked anew")


if __name__ == "__main__":
    main()
