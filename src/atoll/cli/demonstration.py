"""A real run for somebody who sees Atoll for the first time: the example `kinetic_energy`, explained and saved."""

from pathlib import Path

from rich.console import Console

from atoll import config, runs, store
from atoll.cli import examples, following, output

EXAMPLE = "kinetic_energy"


def show(*, seconds: float, steps: int, seed: int, workers: int, store_url: str, as_json: bool) -> int:
    """Explains, runs, saves and sums up; returns the exit status."""
    folder = examples.examples_dir() / EXAMPLE
    plan = config.load(
        folder, [{"run": {"iterations": steps, "seed": seed, "workers": workers, "deterministic": True}}]
    )
    with store.Store(store_url) as kept:
        explain(output.err(), folder)
        session = runs.Session(kept, plan)
        session.seconds = seconds  # stopped from outside, so that the same seed shows the same run
        return following.follow(session, kept, as_json=as_json)


def explain(screen: Console, folder: Path) -> None:
    """Says what is looked for and shows the data."""
    output.say(screen, "Which formula gives the energy of a moving thing from its mass and its speed?")
    output.say(screen, "No key, no LLM: formulas are rewritten at random; what fits better lives on. A score of -1")
    output.say(screen, "means off by a factor of 2, -2 by a factor of 4; 0 is exact.\n")
    rows = [[name, *(f"{value:,}" for value in numbers)] for name, *numbers in examples.load(folder / "task.py").TABLE]
    headings = ["", "mass (kg)", "speed (m/s)", "energy (J)"]
    output.table(screen, headings, rows, right=headings[1:])
    output.say(screen, "")
