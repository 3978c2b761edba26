"""The verb `atoll list`."""

from pathlib import Path
from typing import Annotated

import typer

from atoll.cli.terminal import options


def list_runs(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="Show so many at most.")] = 20,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Lists the runs in the store, newest first.

    \b
    Examples:
      atoll list
      atoll list -n 5 --store /tmp/demo.db
      atoll list --json
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll import runs  # with SQLAlchemy and rich: help need not wait for them
    from atoll.cli.terminal import console, tables
    from atoll.runs import baselines, text_format

    with options.open_existing_store(store) as run_store:
        all_runs = run_store.runs()
        summaries = [runs.summarize(run_store, run.id) for run in all_runs[:limit]]
        roles = {run.id: baselines.describe_baseline(run.config) for run in all_runs[:limit]}
        store_name = run_store.database.name
    if as_json:
        console.print_json([summary.to_data() for summary in summaries])
        return
    if not summaries:
        console.print_line(
            console.get_stderr_console(),
            f"There is no run in {store_name} yet: start one with '{console.get_program_name()} run TASK'.",
        )
        return
    headings = ("run", "when", "system", "task", "status", "start", "best", "judged", "cost")
    rows = [
        (
            summary.run,
            tables.format_local_time(summary.created_at),
            summary.system or "-",
            ", ".join(part for part in (Path(summary.task).name or "-", roles[summary.run]) if part),
            summary.status,
            text_format.format_number(summary.initial_score),
            text_format.format_number(summary.best_score),
            f"{summary.totals.evaluations:,}",
            tables.format_dollars(summary.totals.cost),
        )
        for summary in summaries
    ]
    console.print_table(
        console.get_stdout_console(),
        headings,
        rows,
        right_aligned=headings[5:],
        flexible="task",
        optional=("system", "when", "start", "cost"),
    )
    if len(all_runs) > limit:
        console.print_line(console.get_stderr_console(), f"{limit:,} of {len(all_runs):,} runs; -n shows more.", "dim")
