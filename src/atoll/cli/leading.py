"""A coordinator at work, from its first island to the end of the run."""

import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

LeaseOption = Annotated[
    float,
    typer.Option(
        "--lease-seconds", min=0.5, max=86_400, metavar="S", help="So long the islands of a silent coordinator wait."
    ),
]


def run_coordinator(run_store: Any, make_coordinator: Callable[..., Any], as_json: bool, quiet: bool) -> int:
    """Works until the run is over and tells how it ended; returns the exit status."""
    from atoll import runs
    from atoll.cli import following, output

    console, started_at = output.get_stderr_console(), time.monotonic()
    coordinator = make_coordinator(say=lambda line: None if quiet else output.print_line(console, line))
    if not quiet:
        output.print_line(console, f"Others join with: {output.get_program_name()} join {coordinator.run} --store {run_store.database.name}")
    try:
        with output.interrupt_on_sigterm():
            coordinator.go()
    except KeyboardInterrupt:
        output.print_line(console, "Left the run: its islands are free for others, 'join' comes back to it.")
        raise
    summary = runs.summarize(run_store, coordinator.run)
    if as_json:
        output.print_json({**summary.to_data(), "coordinator": coordinator.name})
    elif not quiet:
        following.print_summary(output.get_stdout_console(), run_store, summary, time.monotonic() - started_at)
    return 1 if summary.status == "failed" else 0
