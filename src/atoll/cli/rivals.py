"""Baselines as the command line runs them: one after the other, after the run that they are compared with."""

import os
from collections.abc import Callable, Sequence

from rich.console import Console

from atoll import errors, runs, store
from atoll.cli import options, output
from atoll.runs import baselines, text

type RunToEnd = Callable[[runs.Session], None]  # runs a session to its end


def run_baselines(
    run_store: store.Store, run_id: str, permissions: runs.UnsafeOptions, console: Console, is_quiet: bool, run_to_end: RunToEnd
) -> Sequence[baselines.Baseline]:
    """Runs all baselines of a run and returns them, those that cannot be run with the reason."""
    results = list[baselines.Baseline]()
    for each in baselines.find_baselines(run_store, run_id):
        try:
            session = baselines.start(run_store, run_id, each.name, allowed=permissions)
        except errors.SetupError as error:
            results.append(baselines.Baseline(each.name, None, str(error)))
            continue
        if not is_quiet:
            output.print_line(console, f"Baseline {each.title}: run {session.run_id}.")
        with session:
            run_to_end(session)
        summary = runs.summarize(run_store, session.run_id)
        results.append(baselines.Baseline(each.name, summary, summary.reason))
        if summary.status == "interrupted":
            break
    finished_names = {result.name for result in results}
    return [*results, *(baseline for baseline in baselines.find_baselines(run_store, run_id) if baseline.name not in finished_names)]


def print_baselines(console: Console, run_store: store.Store, results: Sequence[baselines.Baseline], summary: runs.Summary) -> None:
    """Says what the baselines reached, or how to run them."""
    if all(baseline.summary is None and not baseline.reason for baseline in results):
        command_note = f": {output.get_program_name()} resume {summary.run} --baselines{format_store_option(run_store)}" if results else "."
        output.print_line(console, f"\nBaselines: not run{command_note}")
        return
    command = f"{output.get_program_name()} resume {summary.run} --baselines{format_store_option(run_store)}"
    output.print_line(console, f"\n{baselines.format_heading(results, command)}:")
    for each in results:
        if each.summary is None:
            output.print_line(console, f"  {each.title:24} not run{f': {each.reason}' if each.reason else ''}")
            continue
        totals, end_note = each.summary.totals, "" if each.summary.status == "done" else f", {each.summary.reason}"
        usage = f"{totals.evaluations:,} judged" + (f", {totals.cost.calls:,} calls" if totals.cost.calls else "")
        score = text.format_number(each.summary.best_score)
        output.print_line(console, f"  {each.title:24} {score:>12}  {usage}, run {each.summary.run}{end_note}")
    if (winner := baselines.find_winner(results, summary.best_score)) is not None and winner.summary is not None:
        show_command = f"{output.get_program_name()} best {winner.summary.run}{format_store_option(run_store)}"
        output.print_line(console, f"  {winner.title} found more than this run: {show_command}")


def format_store_option(run_store: store.Store) -> str:
    """Returns what a command needs to find the store, where it is not the usual one."""
    store_url = run_store.database.name
    return "" if store_url == os.environ.get("ATOLL_STORE", options.DEFAULT_STORE) else f" --store {output.quote_shell(store_url)}"
