"""A session from its start to its last line: shown while it runs, summed up at its end."""

import gc
import logging
import os
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from rich.console import Console

from atoll import archipelago, errors, runs, store, system
from atoll.candidate import EMPTY
from atoll.cli.run import progress
from atoll.cli.terminal import console as terminal_console
from atoll.cli.terminal import options
from atoll.runs import baselines, summary, text_format
from atoll.runs.summary import count_failures

type RunToEnd = Callable[[runs.Session], None]  # runs a session to its end


def run_baselines(
    run_store: store.Store,
    run_id: str,
    permissions: runs.UnsafeOptions,
    console: Console,
    is_quiet: bool,
    run_to_end: RunToEnd,
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
            terminal_console.print_line(console, f"Baseline {each.title}: run {session.run_id}.")
        with session:
            run_to_end(session)
        summary = runs.summarize(run_store, session.run_id)
        results.append(baselines.Baseline(each.name, summary, summary.reason))
        if summary.status == "interrupted":
            break
    finished_names = {result.name for result in results}
    return [
        *results,
        *(baseline for baseline in baselines.find_baselines(run_store, run_id) if baseline.name not in finished_names),
    ]


def print_baselines(
    console: Console, run_store: store.Store, results: Sequence[baselines.Baseline], summary: runs.Summary
) -> None:
    """Says what the baselines reached, or how to run them."""
    if all(baseline.summary is None and not baseline.reason for baseline in results):
        command_note = (
            f": {terminal_console.get_program_name()} resume {summary.run} --baselines{format_store_option(run_store)}"
            if results
            else "."
        )
        terminal_console.print_line(console, f"\nBaselines: not run{command_note}")
        return
    command = f"{terminal_console.get_program_name()} resume {summary.run} --baselines{format_store_option(run_store)}"
    terminal_console.print_line(console, f"\n{baselines.format_heading(results, command)}:")
    for each in results:
        if each.summary is None:
            terminal_console.print_line(
                console, f"  {each.title:24} not run{f': {each.reason}' if each.reason else ''}"
            )
            continue
        totals, end_note = each.summary.totals, "" if each.summary.status == "done" else f", {each.summary.reason}"
        usage = f"{totals.evaluations:,} judged" + (f", {totals.cost.calls:,} calls" if totals.cost.calls else "")
        score = text_format.format_number(each.summary.best_score)
        terminal_console.print_line(
            console, f"  {each.title:24} {score:>12}  {usage}, run {each.summary.run}{end_note}"
        )
    if (winner := baselines.find_winner(results, summary.best_score)) is not None and winner.summary is not None:
        show_command = (
            f"{terminal_console.get_program_name()} best {winner.summary.run}{format_store_option(run_store)}"
        )
        terminal_console.print_line(console, f"  {winner.title} found more than this run: {show_command}")


def format_store_option(run_store: store.Store) -> str:
    """Returns what a command needs to find the store, where it is not the usual one."""
    store_url = run_store.database.name
    return (
        ""
        if store_url == os.environ.get("ATOLL_STORE", options.DEFAULT_STORE)
        else f" --store {terminal_console.quote_shell(store_url)}"
    )


PROSE_TITLES = (
    "comment",
    "description",
    "docstring",
)  # of the task's own, in the header: whoever wrote them knows them


def run_session(
    session: runs.Session,
    run_store: store.Store,
    *,
    as_json: bool,
    quiet: bool = False,
    baseline_permissions: runs.UnsafeOptions | None = None,
) -> int:
    """Runs a session to its end and tells how it went; returns the exit status.

    What happens on the way goes to stderr, the result to stdout. Ctrl-C once lets the steps at work finish and saves;
    a second one passes through.

    Args:
        session: The run.
        kept: Where it is.
        as_json: Whether the result is one line of JSON.
        quiet: Whether nothing is shown on the way.
        compared: What its baselines may do; None: there are none.

    Raises:
        RunFailed: It ended before its time; everything until then is saved, and told if a program listens.
        StoreFailed: The store is no longer where it was.
    """
    console, started_at = terminal_console.get_stderr_console(), time.monotonic()
    failure: errors.RunFailed | None = None
    result: Mapping[str, Any] = {}
    if not quiet:
        _print_introduction(session, run_store, console, has_baselines=baseline_permissions is not None)
    with session, _print_warnings(console, quiet), terminal_console.interrupt_on_sigterm():
        try:
            _run_with_progress(session, console, quiet)
            result = session.conclude()
        except errors.RunFailed as error:
            failure = error
    run_store.database.check_identity()
    seconds = time.monotonic() - started_at
    summary = runs.summarize(run_store, session.run_id)
    baseline_results = baselines.find_baselines(run_store, session.run_id)
    if baseline_permissions is not None and summary.status == "done":
        baseline_results = _run_baselines(session, run_store, baseline_permissions, quiet)
    session_end = _SessionEnd(session, run_store, summary, seconds, baseline_results, result)
    if not (quiet or failure):
        session_end.print_result(console if as_json else terminal_console.get_stdout_console())
    if as_json:
        terminal_console.print_json(
            {**session_end.to_data(), "status": "failed", "error": str(failure)} if failure else session_end.to_data()
        )
    if failure is not None:
        raise failure
    return 1 if summary.status == "failed" else 0


def _print_introduction(
    session: runs.Session, run_store: store.Store, console: Console, *, has_baselines: bool
) -> None:
    """Says which run begins where, and has its set-up explained once it has started."""
    terminal_console.print_line(
        console, f"Run {session.run_id} in {run_store.database.name}, sandbox {session.sandbox}."
    )
    baseline_note = {}
    if has_baselines:
        baseline_note["baselines"] = baselines.describe(session.budget, session.run_config.run.llm)
    session.evolver.use_profiler(lambda event: print_setup(console, event, baseline_note))


class _SessionEnd(NamedTuple):
    """How a session ended."""

    session: runs.Session
    run_store: store.Store
    summary: runs.Summary
    seconds: float
    baseline_results: Sequence[baselines.Baseline]
    result: Mapping[str, Any]

    def print_result(self, console: Console) -> None:
        print_summary(
            console,
            self.run_store,
            self.summary,
            self.seconds,
            self.baseline_results,
            summary.list_best_candidates(self.result),
        )
        for line in summary.format_result(self.result):
            terminal_console.print_line(console, line)
        if self.session.ray_stats is not None:
            terminal_console.print_line(console, f"ray: {self.session.ray_stats}.")

    def to_data(self) -> dict[str, Any]:
        data = {**self.summary.to_data(), "seconds": round(self.seconds, 3), **self.result}
        if self.session.ray_stats is not None:
            data["executor"] = self.session.ray_stats.to_data()
        data["baselines"] = {baseline.name: baseline.to_data() for baseline in self.baseline_results}
        return data


def _run_baselines(
    session: runs.Session, run_store: store.Store, permissions: runs.UnsafeOptions, quiet: bool
) -> list[baselines.Baseline]:
    """Runs the baselines of a run that has ended well; one that fails does not undo the run."""
    console = terminal_console.get_stderr_console()

    def go(baseline_session: runs.Session) -> None:
        with _print_warnings(console, quiet), terminal_console.interrupt_on_sigterm(), suppress(errors.RunFailed):
            _run_with_progress(baseline_session, console, quiet)

    return list(run_baselines(run_store, session.run_id, permissions, console, quiet, go))


class _WarningPrinter(logging.Handler):
    """Writes the warnings of a run where its progress is written."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        terminal_console.print_line(self._console, f"  {record.getMessage()}")


@contextmanager
def _print_warnings(console: Console, quiet: bool) -> Iterator[None]:
    log, handler = logging.getLogger("atoll"), logging.NullHandler() if quiet else _WarningPrinter(console)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _run_with_progress(session: runs.Session, console: Console, quiet: bool) -> None:
    progress_view = progress.NoProgress() if quiet else progress.make_progress_view(session, console)
    gc.freeze()  # what was imported stays, and need not be looked through again and again
    with progress_view:
        try:
            session.run(progress_view.refresh)
        except KeyboardInterrupt:
            terminal_console.print_line(console, "Finishing the steps at work; Ctrl-C again stops at once.")
            session.evolver.stop("interrupted")
        finally:
            gc.unfreeze()


def print_setup(
    console: Console, event: archipelago.EvolverEvent | system.OnStarted, extra_facts: Mapping[str, str] = EMPTY
) -> None:
    """Prints the set-up when a run starts, as wide as the screen.

    Words of the task are cut where they are long, facts go on below themselves, and texts of several lines stand below
    their title.
    """
    if not isinstance(event, system.OnStarted):
        return
    facts = {title: str(value).rstrip() for title, value in {**extra_facts, **event.payload}.items()}
    if "source" in facts:
        facts.pop("docstring", None)  # it stands in the source
    width = max((len(title) for title, fact in facts.items() if fact and "\n" not in fact), default=0)
    for title, told in facts.items():
        if "\n" in told:
            lines = textwrap.indent(told, "      ").splitlines()
            terminal_console.print_line(console, f"  {title}")
            for line in lines:
                terminal_console.print_line(
                    console, terminal_console.truncate(line, console.width) if title in PROSE_TITLES else line
                )
        elif told:
            width_left = max(console.width - width - 4, terminal_console.MIN_WIDTH)
            first, *more_lines = (
                [terminal_console.truncate(text_format.escape_control(told), width_left)]
                if title in PROSE_TITLES
                else _wrap(told, width_left)
            )
            terminal_console.print_line(console, f"  {title:{width}}  {first}")
            for line in more_lines:
                terminal_console.print_line(console, f"  {'':{width}}  {line}")
    terminal_console.print_line(console, "")


def _wrap(fact: str, width: int) -> list[str]:
    return textwrap.wrap(text_format.escape_control(fact), width, break_long_words=False, break_on_hyphens=False) or [
        ""
    ]


def print_summary(
    console: Console,
    run_store: store.Store,
    summary: runs.Summary,
    seconds: float,
    baseline_results: Sequence[baselines.Baseline] = (),
    candidate_ids: Sequence[str] = (),
) -> None:
    """Says how a run ended: best against start, where it is, what it cost, what to do next.

    Of a run that searched for several things none is printed in place of all: a table follows.
    """
    totals, cost = summary.totals, summary.totals.cost
    usage_parts = [f"{totals.steps:,} steps", f"{totals.evaluations:,} judged", f"{totals.failures:,} failed"]
    if cost.calls:
        usage_parts += [f"{cost.calls:,} calls", f"{cost.tokens_in + cost.tokens_out:,} tokens", f"${cost.usd:.4f}"]
    status = summary.status.capitalize() + (f" ({summary.reason})" if summary.reason != summary.status else "")
    terminal_console.print_line(console, f"{status} after {seconds:.1f} s: {', '.join(usage_parts)}.")
    _print_failure_warning(console, run_store, summary)
    best = run_store.candidates(summary.run).get(summary.best) if summary.best else None
    position = f"  {summary.best}, island {best.island}, step {best.step}" if best else ""
    terminal_console.print_line(console, f"\n  start  {text_format.format_number(summary.initial_score)}")
    terminal_console.print_line(console, f"  best   {text_format.format_number(summary.best_score)}{position}\n")
    best_content = (
        text_format.format_candidate(summary.system, best.content) if best and best.step and not candidate_ids else ""
    )
    for line in progress.cut_excerpt(best_content).splitlines():
        terminal_console.print_line(console, f"    {line}")
    print_baselines(console, run_store, baseline_results, summary)
    terminal_console.print_line(console, f"Saved as run {summary.run} in {run_store.database.name}. Next:")
    for purpose, command in next_commands(run_store, summary, candidate_ids):
        terminal_console.print_line(console, f"  {purpose + ':':26} {command}")


def _print_failure_warning(console: Console, run_store: store.Store, summary: runs.Summary) -> None:
    """Says so where most of the work was in vain, with the commonest reason."""
    if summary.totals.failures * 2 > summary.totals.steps:
        commonest = count_failures(run_store, summary.run).failures[0]
        warning = (
            f"More than half of the steps failed; the commonest reason ({commonest.count}): {commonest.text[:300]}"
        )
        terminal_console.print_line(console, warning)


def next_commands(
    run_store: store.Store, summary: runs.Summary, candidate_ids: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """Returns the things to do next, with commands that work as they stand."""
    program, run, store_option = terminal_console.get_program_name(), summary.run, format_store_option(run_store)
    commands = [("what was found", f"{program} best {run}{store_option}")]
    commands += (
        [("one of them, by its id", f"{program} show {run} {candidate_ids[0]}{store_option}")] if candidate_ids else []
    )
    if (
        summary.status != "done" and "shared" not in run_store.get_run(run).config
    ):  # what its coordinators ended is over
        return [*commands, ("go on", f"{program} resume {run}{store_option}")]
    return [*commands, ("how it came about", f"{program} lineage {run}{store_option}")]
