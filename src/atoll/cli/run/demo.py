"""The verb `atoll demo`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from atoll import config, runs, store
from atoll.cli.run import init, session_output
from atoll.cli.terminal import console as terminal_console
from atoll.cli.terminal import options


def demo(
    seconds: Annotated[float, typer.Option(min=0.1, metavar="N", help="Stop after so many seconds.")] = 30.0,
    steps: Annotated[int, typer.Option(min=1, metavar="N", help="Stop after so many steps.")] = 20_000,
    seed: Annotated[
        int, typer.Option(metavar="N", help="The same seed gives the same run, with any number of workers.")
    ] = 1,  # one that finds the law soon: a demonstration should not take long
    workers: Annotated[int, typer.Option(min=1, metavar="N", help="Threads that work at once.")] = 2,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> int:
    """Finds the formula behind a small table, with no key and no LLM.

    A real run, in a few seconds. Ctrl-C once finishes the steps at work and saves; twice stops at once.

    \b
    Examples:
      atoll demo
      atoll demo --seed 7 --store /tmp/demo.db
      atoll demo --steps 500 --json
    """  # noqa: D301 - \b keeps the lines of the examples apart
    pass  # with SQLAlchemy and rich: 0.3 s that `atoll --help` need not wait for

    return run_demo(seconds=seconds, iterations=steps, seed=seed, workers=workers, store_url=store, as_json=as_json)


EXAMPLE = "kinetic_energy"


def run_demo(*, seconds: float, iterations: int, seed: int, workers: int, store_url: str, as_json: bool) -> int:
    """Explains, runs, saves and sums up; returns the exit status."""
    folder = init.get_examples_dir() / EXAMPLE
    run_config = config.load(
        folder, [{"run": {"iterations": iterations, "seed": seed, "workers": workers, "deterministic": True}}]
    )
    with store.Store(store_url) as run_store:
        print_introduction(terminal_console.get_stderr_console(), folder)
        session = runs.Session(run_store, run_config)
        session.time_limit = seconds  # stopped from outside, so that the same seed shows the same run
        return session_output.run_session(session, run_store, as_json=as_json)


def print_introduction(console: Console, folder: Path) -> None:
    """Says what is looked for and shows the data."""
    terminal_console.print_line(
        console, "Which formula gives the energy of a moving thing from its mass and its speed?"
    )
    terminal_console.print_line(
        console, "No key, no LLM: formulas are rewritten at random; what fits better lives on. A score of -1"
    )
    terminal_console.print_line(console, "means off by a factor of 2, -2 by a factor of 4; 0 is exact.\n")
    rows = [
        [name, *(f"{value:,}" for value in numbers)] for name, *numbers in init.load_example(folder / "task.py").TABLE
    ]
    headings = ["", "mass (kg)", "speed (m/s)", "energy (J)"]
    terminal_console.print_table(console, headings, rows, right_aligned=headings[1:])
    terminal_console.print_line(console, "")
