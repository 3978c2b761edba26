"""The verb `atoll list`."""

from pathlib import Path
from typing import Annotated

import typer

from atoll.cli import options


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
    from atoll.cli import drawing, output
    from atoll.runs import baselines, text

    with options.opened(store) as kept:
        all_runs = kept.runs()
        summaries = [runs.summarise(kept, run.id) for run in all_runs[:limit]]
        roles = {run.id: baselines.of(run.config) for run in all_runs[:limit]}
        where = kept.database.name
    if as_json:
        output.print_json([summary.to_data() for summary in summaries])
        return
    if not summaries:
        output.say(output.err(), f"There is no run in {where} yet: start one with '{output.own_name()} run TASK'.")
        return
    headings = ("run", "when", "system", "task", "status", "start", "best", "judged", "cost")
    rows = [
        (
            each.run,
            drawing.local(each.created_at),
            each.system or "-",
            ", ".join(part for part in (Path(each.task).name or "-", roles[each.run]) if part),
            each.status,
            text.number(each.initial_score),
            text.number(each.best_score),
            f"{each.totals.evaluations:,}",
            drawing.dollars(each.totals.cost),
        )
        for each in summaries
    ]
    output.table(
        output.out(), headings, rows, right=headings[5:], flexible="task", spare=("system", "when", "start", "cost")
    )
    if len(all_runs) > limit:
        output.say(output.err(), f"{limit:,} of {len(all_runs):,} runs; -n shows more.", "dim")
