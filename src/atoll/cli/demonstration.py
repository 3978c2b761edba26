"""A real run for somebody who sees Atoll for the first time: the example `kinetic_energy`, explained and saved."""

from pathlib import Path

from rich.console import Console

from atoll import config, runs, store
from atoll.cli import examples, following, output

EXAMPLE = "kinetic_energy"


def run_demo(*, seconds: float, iterations: int, seed: int, workers: int, store_url: str, as_json: bool) -> int:
    """Explains, runs, saves and sums up; returns the exit status."""
    folder = examples.get_examples_dir() / EXAMPLE
    run_config = config.load(
        folder, [{"run": {"iterations": iterations, "seed": seed, "workers": workers, "deterministic": True}}]
    )
    with store.Store(store_url) as run_store:
        print_introduction(output.get_stderr_console(), folder)
        session = runs.Session(run_store, run_config)
        session.time_limit = seconds  # stopped from outside, so that the same seed shows the same run
        return following.run_session(session, run_store, as_json=as_json)


def print_introduction(console: Console, folder: Path) -> None:
    """Says what is looked for and shows the data."""
    output.print_line(console, "Which formula gives the energy of a moving thing from its mass and its speed?")
    output.print_line(console, "No key, no LLM: formulas are rewritten at random; what fits better lives on. A score of -1")
    output.print_line(console, "means off by a factor of 2, -2 by a factor of 4; 0 is exact.\n")
    rows = [[name, *(f"{value:,}" for value in numbers)] for name, *numbers in examples.load_example(folder / "task.py").TABLE]
    headings = ["", "mass (kg)", "speed (m/s)", "energy (J)"]
    output.print_table(console, headings, rows, right_aligned=headings[1:])
    output.print_line(console, "")
