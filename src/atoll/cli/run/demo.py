"""Command `demo`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from atoll.cli.run import init
from atoll.cli.terminal import options

EXAMPLE = "kinetic_energy"


def demo(
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, metavar="N", help="Stop after N seconds.")] = 30.0,
    iterations: Annotated[
        int, typer.Option("--iterations", "-i", min=1, metavar="N", help="Stop after N iterations.")
    ] = 20_000,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Random seed.")] = 1,  # finds the law soon
    workers: Annotated[int, typer.Option("--workers", min=1, metavar="N", help="Iterations in parallel.")] = 2,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> int:
    """Rediscover a formula in about 10 seconds, without an API key.

    Ctrl-C finishes the running iterations and saves. A second Ctrl-C stops at once.

    \b
    Examples:
      atoll demo
      atoll demo --seed 7 --store /tmp/demo.db
      atoll demo --iterations 500 --json
    """  # noqa: D301 - \b keeps line breaks
    from atoll import config, runs  # slow imports: SQLAlchemy, rich
    from atoll import store as stores
    from atoll.cli.run import session_output

    folder = init.get_examples_dir() / EXAMPLE
    run_section = {"iterations": iterations, "seed": seed, "workers": workers, "deterministic": True}
    run_config = config.load(folder, [{"run": run_section}])
    with stores.Store(store) as run_store:
        print_introduction(folder)
        session = runs.Session(run_store, run_config)
        session.time_limit = seconds  # not part of the budget: the same seed gives the same run
        return session_output.run_session(session, run_store, as_json=as_json)


def print_introduction(folder: Path) -> None:
    """Prints the question and the data on stderr."""
    from atoll.cli.terminal import console as terminal

    terminal.print_note("Which formula gives the energy of a moving body from its mass and speed?")
    terminal.print_note("No API key, no LLM: Atoll changes formulas at random and keeps better ones. A score of -1")
    terminal.print_note("means wrong by a factor of 2, -2 by a factor of 4; 0 is exact.\n")
    table: Any = init.load_example(folder / "task.py").TABLE
    rows = [[name, *(f"{value:,}" for value in numbers)] for name, *numbers in table]
    headings = ["", "mass (kg)", "speed (m/s)", "energy (J)"]
    terminal.print_table(terminal.get_stderr_console(), headings, rows, right_aligned=headings[1:])
    terminal.print_note()
