"""The verb `atoll demo`."""

from typing import Annotated

import typer

from atoll.cli import options


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
    from atoll.cli import demonstration  # with SQLAlchemy and rich: 0.3 s that `atoll --help` need not wait for

    return demonstration.run_demo(
        seconds=seconds, iterations=steps, seed=seed, workers=workers, store_url=store, as_json=as_json
    )
