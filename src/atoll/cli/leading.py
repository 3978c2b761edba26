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


def lead(kept: Any, make: Callable[..., Any], as_json: bool, quiet: bool) -> int:
    """Works until the run is over and tells how it ended; returns the exit status."""
    from atoll import runs
    from atoll.cli import following, output

    screen, since = output.err(), time.monotonic()
    coordinator = make(say=lambda line: None if quiet else output.say(screen, line))
    if not quiet:
        output.say(screen, f"Others join with: {output.own_name()} join {coordinator.run} --store {kept.database.name}")
    try:
        with output.terminated_as_interrupted():
            coordinator.go()
    except KeyboardInterrupt:
        output.say(screen, "Left the run: its islands are free for others, 'join' comes back to it.")
        raise
    summary = runs.summarise(kept, coordinator.run)
    if as_json:
        output.print_json({**summary.to_data(), "coordinator": coordinator.name})
    elif not quiet:
        following.tell(output.out(), kept, summary, time.monotonic() - since)
    return 1 if summary.status == "failed" else 0
