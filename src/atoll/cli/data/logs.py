"""The verb `atoll replay`."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from atoll import errors
from atoll.cli.terminal import options, parsing

MAX_ROWS = 40


def replay(
    log: Annotated[str, typer.Argument(metavar="LOG", help="A folder of day files, a store, or run:RUN.")],
    feedback: Annotated[
        str | None, typer.Option("--feedback", "-f", metavar="PLACE", help="A folder or a store; of a run, its own.")
    ] = None,
    since: Annotated[str, typer.Option(metavar="WHEN", help="The first moment, e.g. 2026-04-18.")] = "1970-01-01",
    until: Annotated[str, typer.Option(metavar="WHEN", help="The last moment, included.")] = "9000-01-01",
    window: Annotated[str, typer.Option(metavar="TIME", help="How late feedback may come: 7d, 12h.")] = "7d",
    attribution: Annotated[str, typer.Option(metavar="NAME", help="first, last, mean, decay, all or decision.")] = "",
    by: Annotated[str, typer.Option(metavar="WHAT", help="Of a run: engine or island.")] = "engine",
    on_issue: Annotated[str, typer.Option(metavar="POLICY", help="Bad lines: raise, skip or quarantine.")] = "skip",
    checkpoint: Annotated[Path | None, typer.Option(metavar="FILE", help="Goes on from there if it was cut.")] = None,
    estimate: Annotated[
        str | None, typer.Option(metavar="METRIC", help="Also estimate what another policy would have earned of it.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="JSON", help="That policy: the probability of each action.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Pairs logged decisions with their feedback and sums up what came of them.

    \b
    Examples:
      atoll replay logs --feedback feedback
      atoll replay logs -f feedback --since 2026-04-01 --attribution last --json
      atoll replay run:latest                        which engine of a run pays
      atoll replay logs -f feedback --estimate won --policy '{"left": 0.2, "right": 0.8}'
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli.data import log_sources  # with SQLAlchemy and numpy: help need not wait for them

    if (estimate is None) != (policy is None):
        present_option, missing_option = (
            ("--policy", "--estimate METRIC") if estimate is None else ("--estimate", "--policy JSON")
        )
        raise errors.SetupError(
            f"{present_option} needs {missing_option} too: what is estimated, and for which other policy."
        )
    sources = log_sources.LogSources(log, feedback, store_url=store, on_issue=cast(Any, on_issue), group_by=by)
    try:
        collector = None if estimate is None or policy is None else log_sources.make_collector(estimate, policy)
        report, aggregator = log_sources.run_replay(
            sources,
            parsing.parse_time(since),
            parsing.parse_time(until),
            window=timedelta(seconds=parsing.parse_seconds(window)),
            attribution=attribution or ("decision" if sources.is_run else "first"),
            checkpoint=checkpoint,
            collector=collector,
        )
    finally:
        sources.close()
    rows = log_sources.list_statistics(aggregator)
    estimates = [] if collector is None else log_sources.list_estimates(collector)
    _print_results(report, rows, estimates, as_json)


def _print_results(report: Any, rows: Any, estimates: Any, as_json: bool) -> None:
    from atoll.cli.terminal import console
    from atoll.runs import text_format

    if as_json:
        console.print_json({"report": report.to_data(), "statistics": rows, "estimates": estimates})
        return
    names = ("count", "mean", "deviation", "min", "p50", "max", "pending_count")
    cells = [
        (
            row["entity"],
            row["metric"] or "(pending)",
            *(text_format.format_number(_get_statistic(row, name)) for name in names),
        )
        for row in rows[:MAX_ROWS]
    ]
    headings = ("entity", "metric", "count", "mean", "sd", "min", "median", "max", "pending")
    if cells:
        console.print_table(
            console.get_stdout_console(), headings, cells, right_aligned=headings[2:], flexible="entity"
        )
    if len(rows) > MAX_ROWS:
        console.print_line(console.get_stderr_console(), f"{MAX_ROWS} of {len(rows):,} rows; --json has all.", "dim")
    for estimate in estimates:
        low, high = estimate["interval"]
        note = (
            f"worth {estimate['effective_size']:.0f} decisions"
            if estimate["estimator"] != "naive"
            else "of the log itself"
        )
        console.print_line(
            console.get_stdout_console(),
            f"{estimate['estimator']:12} {estimate['value']:.4f}  ({low:.4f} to {high:.4f})  {note}",
        )
    console.print_line(
        console.get_stderr_console(),
        f"{report.entries:,} decisions, {report.paired:,} paired, {report.pending:,} pending, "
        f"{report.issues:,} bad lines, {report.in_progress:,} in progress.",
        "dim",
    )


def _get_statistic(row: Any, name: str) -> Any:
    return row["variance"] ** 0.5 if name == "deviation" else row[name]
