"""Cost of an iteration in the populations of program evolution, as the number of programs grows.

    scripts/bench population [--quick]

As in `bench/engine.py`: an instant engine and evaluator, CPU time, two populations that run in turns.
"""

import argparse
import gc

from atoll.programs.population.population import PopulationFactory
from bench import engine, outcome

SIZES = (500, 50_000)
GOALS = 1.5
SHELVES = {
    "grid of length and diversity": PopulationFactory(),
    "grid of two metrics, 10 x 10": PopulationFactory(features=("first", "second")),
    "grid of two metrics, 300 x 300": PopulationFactory(features=("first", "second"), num_bins=300),
    "front per instance": PopulationFactory("front"),
    "clusters by signature": PopulationFactory("clusters", 2),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only up to 5,000 programs; nothing is saved")
    options = parser.parse_args()
    sizes = (SIZES[0], 5_000) if options.quick else SIZES
    rows = list[list[object]]()
    for name, shelf in SHELVES.items():
        islands = [engine.grown(shelf, size) for size in sizes]
        engine.settle_garbage()
        few, many = engine.step_costs(islands, 10 if options.quick else 40)
        rows.append([name, few, many, many / few, "MET" if many / few <= GOALS else "MISSED"])
        gc.unfreeze()
    columns = ["pool", *(f"us at {size:,}" for size in sizes), "ratio", f"wanted <= {GOALS:g}"]
    show = outcome.show if options.quick else outcome.keep
    show(
        "population",
        {"Iteration by number of programs": (columns, rows)},
        ["One island; each iteration selects parents, the best, random programs and neighbors."],
    )


if __name__ == "__main__":
    main()
