"""Commands `logs replay` and `logs estimate`."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from atoll.cli.terminal import options, parsing

MAX_ROWS = 40
STATISTICS = ("count", "mean", "deviation", "min", "p50", "max", "pending_count")

app = options.make_group("Analyze logged decisions and their feedback.")

LogArgument = Annotated[str, typer.Argument(metavar="LOG", help="Log folder, store, or run:RUN.")]
SinceOption = Annotated[str, typer.Option("--since", metavar="TIME", help="First time to include.")]
UntilOption = Annotated[str, typer.Option("--until", metavar="TIME", help="Last time to include.")]
WindowOption = Annotated[
    str, typer.Option("--window", metavar="TIME", help="Maximum delay of feedback after a decision, e.g. 7d.")
]
AttributionOption = Annotated[
    str, typer.Option("--attribution", metavar="NAME", help="Pairing: first, last, mean, decay, all or decision.")
]
ByOption = Annotated[str, typer.Option("--by", metavar="FIELD", help="Group a run by mutator or island.")]
IssueOption = Annotated[
    str, typer.Option("--on-issue", metavar="POLICY", help="Unreadable lines: raise, skip or quarantine.")
]
ResumeOption = Annotated[
    Path | None, typer.Option("--resume-from", metavar="FILE", help="Continue an interrupted replay.")
]
ColumnarOption = Annotated[bool, typer.Option("--columnar", help="Process the logs by columns; faster, more memory.")]


@app.command("replay")
def replay(
    log: LogArgument,
    feedback: options.FeedbackOption = None,
    since: SinceOption = "1970-01-01",
    until: UntilOption = "9000-01-01",
    window: WindowOption = "7d",
    attribution: AttributionOption = "",
    by: ByOption = "mutator",
    on_issue: IssueOption = "skip",
    resume_from: ResumeOption = None,
    columnar: ColumnarOption = False,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Pair logged decisions with feedback; print statistics.

    A run has its own feedback. --columnar reads folders only, pairs each decision with its first feedback, and needs
    the extra 'columnar'.

    \b
    Examples:
      atoll logs replay logs --feedback feedback
      atoll logs replay logs -f feedback --since 2026-04-01 --attribution last --json
      atoll logs replay run:latest                        statistics of each mutator
    """  # noqa: D301 - \b keeps line breaks
    _analyze(
        log, feedback, since, until, window, attribution, by, on_issue, resume_from, columnar, store, as_json=as_json
    )


@app.command("estimate")
def estimate(
    log: LogArgument,
    metric: Annotated[str, typer.Argument(metavar="METRIC", help="Metric to estimate.")],
    policy: Annotated[str, typer.Option("--policy", metavar="JSON", help="Target policy: probability of each action.")],
    feedback: options.FeedbackOption = None,
    since: SinceOption = "1970-01-01",
    until: UntilOption = "9000-01-01",
    window: WindowOption = "7d",
    attribution: AttributionOption = "",
    by: ByOption = "mutator",
    on_issue: IssueOption = "skip",
    resume_from: ResumeOption = None,
    columnar: ColumnarOption = False,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Estimate what another policy would have earned.

    The log needs the action and the probability (propensity) of each decision.

    \b
    Examples:
      atoll logs estimate logs won -f feedback --policy '{"left": 0.2, "right": 0.8}'
    """  # noqa: D301 - \b keeps line breaks
    target = (metric, policy)
    _analyze(
        log, feedback, since, until, window, attribution, by, on_issue, resume_from, columnar, store, target, as_json
    )


def _analyze(
    log: str,
    feedback: str | None,
    since: str,
    until: str,
    window: str,
    attribution: str,
    by: str,
    on_issue: str,
    resume_from: Path | None,
    columnar: bool,
    store: str,
    target: tuple[str, str] | None = None,
    as_json: bool = False,
) -> None:
    from atoll.cli.data import log_sources  # slow imports: SQLAlchemy, numpy

    times = parsing.parse_time(since), parsing.parse_time(until)
    window_length = timedelta(seconds=parsing.parse_seconds(window))
    if columnar:
        log_sources.check_columnar(log, feedback, attribution, resume_from)
        _print_results(*log_sources.run_columnar(log, feedback or "", *times, window_length, target), as_json)
        return
    group_by = "engine" if by == "mutator" else by  # the journal calls mutators engines
    sources = log_sources.LogSources(log, feedback, store_url=store, on_issue=cast(Any, on_issue), group_by=group_by)
    try:
        collector = None if target is None else log_sources.make_collector(*target)
        report, aggregator = log_sources.run_replay(
            sources,
            *times,
            window=window_length,
            attribution=attribution or ("decision" if sources.is_run else "first"),
            checkpoint=resume_from,
            collector=collector,
        )
    finally:
        sources.close()
    estimates = [] if collector is None else log_sources.list_estimates(collector.to_logged_data())
    _print_results(report, log_sources.list_statistics(aggregator), estimates, as_json)


def _print_results(report: Any, rows: Any, estimates: Any, as_json: bool) -> None:
    from atoll.cli.terminal import console
    from atoll.runs import text_format

    if as_json:
        console.print_json({"report": report.to_data(), "statistics": rows, "estimates": estimates})
        return
    cells = [
        (
            row["entity"],
            row["metric"] or "(pending)",
            *(text_format.format_number(_get_statistic(row, name)) for name in STATISTICS),
        )
        for row in rows[:MAX_ROWS]
    ]
    headings = ("entity", "metric", "count", "mean", "sd", "min", "median", "max", "pending")
    if cells:
        console.print_result_table(headings, cells, right_aligned=headings[2:], flexible="entity")
    if len(rows) > MAX_ROWS:
        console.print_note(f"{MAX_ROWS} of {len(rows):,} rows. Print all with --json.", "dim")
    for row in estimates:
        low, high = row["interval"]
        is_naive = row["estimator"] == "naive"
        note = "mean of the log" if is_naive else f"effective size {row['effective_size']:.0f} decisions"
        console.print_result(f"{row['estimator']:12} {row['value']:.4f}  ({low:.4f} to {high:.4f})  {note}")
    console.print_note(
        f"{report.entries:,} decisions, {report.paired:,} paired, {report.pending:,} pending, "
        f"{report.issues:,} unreadable lines, {report.in_progress:,} incomplete.",
        "dim",
    )


def _get_statistic(row: Any, name: str) -> Any:
    return row["variance"] ** 0.5 if name == "deviation" else row.get(name)
