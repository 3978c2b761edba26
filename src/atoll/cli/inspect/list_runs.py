"""Command `list`."""

import sys
from pathlib import Path

from atoll.cli.terminal import options


def list_runs(
    limit: options.LimitOption = 20,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """List runs, newest first.

    \b
    Examples:
      atoll list
      atoll list -n 5 --store /tmp/demo.db
      atoll list --json
    """  # noqa: D301 - \b keeps line breaks
    with options.open_existing_store(store) as run_store:
        all_runs = run_store.list_runs()
        if not all_runs:
            note = f"{run_store.database.name} has no runs yet. Start one with 'atoll run TASK'."
            print("[]") if as_json else print(note, file=sys.stderr)
            return
        from atoll import runs  # slow imports: pydantic, rich
        from atoll.cli.terminal import console, tables
        from atoll.runs import baselines, text_format

        summaries = [runs.summarize(run_store, run.id) for run in all_runs[:limit]]
        roles = {run.id: baselines.describe_baseline(run.config) for run in all_runs[:limit]}
    if as_json:
        console.print_json([summary.to_data() for summary in summaries])
        return
    headings = ("run", "created", "system", "task", "status", "initial", "best", "evaluations", "cost")
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
    console.print_result_table(
        headings,
        rows,
        right_aligned=headings[5:],
        flexible="task",
        optional=("system", "created", "initial", "cost", "evaluations"),
    )
    if len(all_runs) > limit:
        console.print_note(f"{limit:,} of {len(all_runs):,} runs. Show more with -n.", "dim")
