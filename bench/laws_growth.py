"""Growth of the law search with rows and variables: CPU seconds until the same law is found, and for its choice.

The data is a law of two variables without noise; further variables have no effect. A run ends when the law is exact
(NMSE below 1e-20) or after `--seconds` of CPU time. A run uses one core.
"""

import argparse
import statistics
import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from atoll import cluster, control
from atoll.llmsr.laws import build, result, search, table
from bench import outcome

ROWS = (1_000, 10_000, 100_000)
VARIABLES = (2, 4, 6, 8, 10)
EXACT_SCORE = 20.0


class Run(NamedTuple):
    """CPU seconds of one run.

    Attributes:
        preparation: Until the search begins: views of the data and samples.
        search: Until the exact law; the limit if it was not found.
        choice: For the choice of the law.
        iterations: Number of iterations.
        is_exact: Whether the chosen law is exact.
    """

    rows: int
    variables: int
    seed: int
    preparation: float
    search: float
    choice: float
    iterations: int
    is_exact: bool


def make_table(rows: int, variables: int, seed: int) -> table.Table:
    x = np.random.default_rng(seed).uniform(0.5, 4.0, (rows, variables))
    names = [f"x{index}" for index in range(variables)]
    return table.Table(names, "y", x, 3.0 * x[:, 0] / (1.5 + x[:, 0]) + 0.5 * x[:, 1] ** 2)


def run(rows: int, variables: int, seed: int, seconds: float) -> Run:
    """Runs one search."""
    train = make_table(rows, variables, seed)
    started = time.process_time()
    law_search = search.Search(train.rows, train.domain)
    config = build.make_config(train, law_search, 1)
    prepared = time.process_time()

    def stop_at_law(progress: control.RunProgress) -> str | None:
        if progress.best_score is not None and progress.best_score > EXACT_SCORE:
            return "exact"
        return "all seconds used" if time.process_time() - prepared > seconds else None

    evolver = cluster.Evolver(replace(config, num_parallel=1, seed=seed, stop_rules=[stop_at_law]))
    evolver.run()
    searched = time.process_time()
    chosen = result.conclude(evolver, train).chosen
    return Run(
        rows,
        variables,
        seed,
        prepared - started,
        searched - prepared,
        time.process_time() - searched,
        evolver.usage.iterations,
        chosen.error < 10.0**-EXACT_SCORE,
    )


def make_tables(runs: list[Run]) -> outcome.Tables:
    """Returns the medians over the seeds."""
    cells: dict[tuple[int, int], list[Run]] = {}
    for item in runs:
        cells.setdefault((item.rows, item.variables), []).append(item)
    lines = [
        [
            rows,
            variables,
            f"{sum(item.is_exact for item in group)} of {len(group)}",
            *(statistics.median(getattr(item, name) for item in group) for name in ("preparation", "search", "choice")),
            statistics.median(item.iterations for item in group),
        ]
        for (rows, variables), group in cells.items()
    ]
    columns = ["rows", "variables", "exact", "preparation, s", "search, s", "choice, s", "iterations"]
    return {"CPU seconds to the exact law, medians over the seeds": (columns, lines)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=120.0, help="CPU seconds of every search")
    options = parser.parse_args()
    sizes = [*((rows, 2) for rows in ROWS), *((ROWS[0], variables) for variables in VARIABLES[1:])]
    sizes.append((ROWS[-1], VARIABLES[-1]))
    runs: list[Run] = []
    for rows, variables in sizes:
        for seed in range(options.seeds):
            runs.append(run(rows, variables, seed, options.seconds))
            print(runs[-1], flush=True)
    outcome.keep("laws_growth", make_tables(runs), bench="laws_growth", runs=[item._asdict() for item in runs])


if __name__ == "__main__":
    main()
