"""Cost of an iteration as the population grows: of the kernel alone, and end to end with OpenEvolve.

The kernel runs with an instant engine and an instant evaluator, so that only its own CPU time counts. Two populations
of different size run in turns. Measured one after the other, the same code gave ratios from 0.86 to 1.77. The end to
end part has all features on; see `bench/end_to_end.py`.
"""

import argparse
import contextlib
import gc
import itertools
import sqlite3
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from atoll import cluster, control, evaluation, function, journal, sandbox, store
from atoll.store.records import seals
from bench import end_to_end, outcome

PEERS = True
CHUNK = 50


class Instant:
    """Returns a new text with random scores at once."""

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        scores = [context.rng.gauss(0, 1) for _ in range(2)]
        return [context.parents[-1].clone(function.Text(f"{context.iteration} {scores[0]:.6f} {scores[1]:.6f}"))]


def evaluate(skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
    """Reads the scores from the text."""
    scores = tuple(float(word) for word in str(skeleton).split()[1:])
    return evaluation.Evaluation(sum(scores), scores, {"first": scores[0], "second": scores[1]})


def feature(name: str) -> Callable[[function.Function], float]:
    return lambda fn: fn.evaluation.metrics[name] if fn.evaluation else 0.0


def signature_population(make_chooser: Callable[[Random], cluster.Selector]) -> cluster.MakePopulation:
    """One cluster per candidate: the hardest case for a selector."""
    return lambda island, rng, announce: cluster.NichedPopulation(
        cluster.by_signature, lambda key: cluster.DefaultCluster(rng, announce), make_chooser(rng)
    )


def one_cluster_population(island: int, rng: Random, announce: cluster.ClusterProfilers) -> cluster.NichedPopulation:
    """All candidates in one cluster: the hardest case for a cluster."""
    by_length = cluster.DefaultCluster(rng, announce)
    return cluster.NichedPopulation(
        cluster.single_niche, lambda key: by_length, cluster.WeightSelector(rng, replace=True)
    )


def grid_population(island: int, rng: Random, announce: cluster.ClusterProfilers) -> cluster.NichedPopulation:
    """MAP-Elites on a grid of 1,000 x 1,000 cells."""
    keys = cluster.FeatureBins([feature("first"), feature("second")], num_bins=1000)
    return cluster.NichedPopulation(keys, lambda key: cluster.EliteCluster(rng, announce), cluster.WeightSelector(rng))


def pareto_population(island: int, rng: Random, announce: cluster.ClusterProfilers) -> cluster.NichedPopulation:
    """One front per instance."""

    def make_cluster(key: Any) -> cluster.EliteCluster:
        return cluster.EliteCluster(
            rng, announce, value=lambda fn: fn.evaluation.scores[key] if fn.evaluation else 0.0, ties=True
        )

    by_size = cluster.WeightSelector(rng, lambda score, size: size)
    return cluster.NichedPopulation(cluster.by_instance, make_cluster, by_size)


def bounded_population(island: int, rng: Random, announce: cluster.ClusterProfilers) -> cluster.NichedPopulation:
    """Tournament in a population of 1,000."""
    tournament = cluster.TournamentCluster(rng, announce, limit=1000)
    return cluster.NichedPopulation(
        cluster.single_niche, lambda key: tournament, cluster.WeightSelector(rng, replace=True)
    )


POOLS: dict[str, cluster.MakePopulation] = {
    "clusters, softmax (FunSearch)": signature_population(lambda rng: cluster.SoftmaxSelector(rng)),
    "clusters, softmax without replacement": signature_population(
        lambda rng: cluster.SoftmaxSelector(rng, replace=False)
    ),
    "clusters, rank": signature_population(lambda rng: cluster.RankSelector(rng)),
    "clusters, uniform": signature_population(lambda rng: cluster.WeightSelector(rng)),
    "one cluster, by length": one_cluster_population,
    "MAP-Elites": grid_population,
    "Pareto per instance": pareto_population,
    "bounded pool, tournament": bounded_population,
}


def make_evolver(
    make_population: cluster.MakePopulation, records: journal.Journal | None = None, **options: Any
) -> cluster.Evolver:
    start = function.Text("0 0.0 0.0")
    initial = function.DefaultFunction(function.DefaultFunctionProps(start, candidate_evaluator=evaluate))
    config = cluster.IslandConfig(1, 2, initial, Instant(), make_population=make_population)
    options = {"num_parallel": 1, "reset_period": None} | options
    return cluster.Evolver(cluster.EvolverConfig(config, journal=records or journal.NullJournal(), **options))


def grown(make_population: cluster.MakePopulation, size: int, records: journal.Journal | None = None) -> cluster.Island:
    """Returns an island with this many functions."""
    evolver = make_evolver(make_population, records)
    island = evolver.islands[0]
    for _ in range(size):
        island.request_mutation()
    return island


def settle_garbage() -> None:
    """Hides existing objects from the garbage collector.

    A full collection runs once per growth by a quarter. It costs little per iteration, but in a sample it would be
    random.
    """
    gc.collect()
    gc.freeze()


def step_costs(islands: Sequence[cluster.Island], chunks: int) -> list[float]:
    """Returns the mean CPU microseconds per iteration on each island, run in turns. Rare rebuilds count."""
    totals = [0.0] * len(islands)
    for _, (position, island) in itertools.product(range(chunks), enumerate(islands)):
        since = time.process_time()
        for _ in range(CHUNK):
            island.request_mutation()
        totals[position] += time.process_time() - since
    return [total / (chunks * CHUNK) * 1e6 for total in totals]


def growth(sizes: Sequence[int], chunks: int, folder: Path) -> tuple[Sequence[str], list[list[object]]]:
    rows: list[list[object]] = []
    for name, make_population in POOLS.items():
        islands = [grown(make_population, size) for size in sizes]
        settle_garbage()
        costs = step_costs(islands, chunks)
        rows.append([name, *costs, *(cost / costs[0] for cost in costs[1:])])
        gc.unfreeze()
    with store.Store(str(folder / "growth.db")) as opened_store:
        pool = POOLS["clusters, rank"]
        islands = [grown(pool, size, opened_store.journal(opened_store.create_run(f"size-{size}"))) for size in sizes]
        settle_garbage()
        costs = step_costs(islands, chunks)
        rows.append(["clusters, rank, with the SQLite journal", *costs, *(cost / costs[0] for cost in costs[1:])])
    ratios = [f"{size:,} : {sizes[0]}" for size in sizes[1:]]
    return ["pool, chooser", *(f"us at {size:,}" for size in sizes), *ratios], rows


def memory(size: int) -> tuple[Sequence[str], list[list[object]]]:
    """Bytes per candidate beyond its content, with everything that the kernel holds."""
    rows: list[list[object]] = []
    for name in ("clusters, softmax (FunSearch)", "clusters, rank", "one cluster, by length"):
        evolver = make_evolver(POOLS[name])
        island = evolver.islands[0]
        island.request_mutation()
        gc.collect()
        tracemalloc.start()
        for _ in range(size):
            island.request_mutation()
        gc.collect()
        used = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        contents = 49 + len("10000 -0.123456 -0.123456")
        rows.append([name, size, used / size - contents])
    return ["pool, chooser", "candidates", "bytes per candidate beyond its content"], rows


def throughput(steps: int, folder: Path) -> tuple[Sequence[str], list[list[object]]]:
    rows: list[list[object]] = []
    for kind, workers in itertools.product(("nowhere", "SQLite"), (1, 4, 64)):
        with store.Store(str(folder / f"{workers}.db")) as opened_store:
            records = (
                opened_store.journal(opened_store.create_run("run")) if kind == "SQLite" else journal.NullJournal()
            )
            evolver = make_evolver(
                POOLS["clusters, rank"], records, num_parallel=workers, budget=control.Budget(iterations=steps)
            )
            since = time.perf_counter(), time.process_time()
            evolver.run()
            wall, cpu = time.perf_counter() - since[0], time.process_time() - since[1]
        rows.append([kind, workers, steps / wall, cpu / steps * 1e6])
    return ["journal", "workers", "steps/s", "CPU us per iteration"], rows


def commits(count: int, folder: Path) -> tuple[Sequence[str], list[list[object]]]:
    """Commits of one record of 300 bytes, in Atoll and in plain sqlite3 with the same pragmas."""
    data = {"id": "1.0", "text": "x" * 260}
    with store.Store(str(folder / "ours.db")) as opened_store:
        ours = opened_store.journal(opened_store.create_run("run"))
        since = time.process_time(), time.perf_counter()
        for step in range(count):
            ours.write(journal.Record("begun", step, 0, data))
        ours_took = time.process_time() - since[0], time.perf_counter() - since[1]
    bare = sqlite3.connect(folder / "bare.db", isolation_level=None)
    bare.execute("pragma journal_mode=wal")
    bare.execute("pragma synchronous=normal")
    bare.execute("create table records (seq integer primary key, run text, kind text, step int, island int, data text)")
    since = time.process_time(), time.perf_counter()
    for step in range(count):
        bare.execute("begin immediate")
        row = ("run", "begun", step, 0, "x" * 300)
        bare.execute("insert into records (run, kind, step, island, data) values (?, ?, ?, ?, ?)", row)
        bare.execute("commit")
    bare_took = time.process_time() - since[0], time.perf_counter() - since[1]
    bare.close()
    rows: list[list[object]] = [
        [name, count / cpu, count / wall] for name, (cpu, wall) in (("Atoll", ours_took), ("sqlite3", bare_took))
    ]
    return ["journal", "commits per CPU s", "commits/s"], rows


class _NoStatement:
    def execute(self, cursor: Any, rows: Any) -> None:
        """Does nothing."""


def seal_costs(chunks: int, folder: Path) -> tuple[Sequence[str], list[list[object]]]:
    """CPU of an iteration with an instant engine and the SQLite journal, with seals and without, in turns."""
    compute_hash, took = seals.compute_hash, {"with seals": list[float](), "without": list[float]()}
    with contextlib.ExitStack() as stack:
        islands = {}
        for name in took:
            opened_store = stack.enter_context(store.Store(str(folder / f"{name}.db")))
            records: Any = opened_store.journal(opened_store.create_run("run"))
            islands[name] = grown(POOLS["clusters, rank"], 100, records)
            if name == "without":
                records._insert_seal = _NoStatement()
        for _ in range(chunks):
            for name, island in islands.items():
                seals.compute_hash = compute_hash if name == "with seals" else lambda previous, rows: ""
                since = time.process_time()
                for _ in range(50):
                    island.request_mutation()
                took[name].append((time.process_time() - since) / 50 * 1e6)
        seals.compute_hash = compute_hash
    medians = {name: statistics.median(values) for name, values in took.items()}
    sandboxed = measure_evaluation()
    cost, rows = medians["with seals"] - medians["without"], [list(item) for item in medians.items()]
    rows += [["one evaluation in the sandbox, wall clock", sandboxed]]
    rows += [["share of the seals, instant evaluation, %", 100 * cost / medians["with seals"]]]
    rows += [["share of the seals, evaluation in the sandbox, %", 100 * cost / (medians["with seals"] + sandboxed)]]
    return ["part", "us per iteration"], rows


def measure_evaluation() -> float:
    """Returns the microseconds of an evaluation that does nothing, in the sandbox."""
    with sandbox.IsolatedSandbox(lambda: lambda request: 1.0) as box:
        box.warm()
        taken = [box.run("").seconds for _ in range(50)]
    return 1e6 * statistics.median(taken)


def kernel_tables(quick: bool) -> outcome.Tables:
    sizes = [100, 5_000] if quick else [100, 20_000, 100_000]
    with tempfile.TemporaryDirectory() as folder:
        return {
            "Iteration by population size": growth(sizes, 10 if quick else 30, Path(folder)),
            "Memory": memory(2_000 if quick else 20_000),
            "Threads with an instant engine": throughput(1_000 if quick else 5_000, Path(folder)),
            "Seals": seal_costs(20 if quick else 200, Path(folder)),
            "Commits": commits(2_000 if quick else 20_000, Path(folder)),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="sizes 100 and 5,000 and runs of 200 iterations only")
    parser.add_argument("--end-to-end", action="store_true", help="no kernel tables; nothing is saved")
    parser.add_argument("--no-peers", action="store_true", help="run only Atoll; nothing is saved")
    options = parser.parse_args()
    contest = end_to_end.contest(quick=options.quick, with_peers=not options.no_peers)
    if options.end_to_end or options.no_peers:
        kernel = {} if options.end_to_end else kernel_tables(options.quick)
        outcome.show("engine", {**kernel, **contest.tables}, contest.notes)
    else:
        outcome.keep("engine", {**kernel_tables(options.quick), **contest.tables}, contest.notes)


if __name__ == "__main__":
    main()
