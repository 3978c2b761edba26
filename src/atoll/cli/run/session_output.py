"""Output of a run: progress, baselines and the summary."""

import gc
import logging
import os
import shlex
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, NamedTuple

from rich.console import Console

from atoll import archipelago, errors, runs, store, system
from atoll.candidate import EMPTY
from atoll.cli.run import progress
from atoll.cli.terminal import console as terminal
from atoll.cli.terminal import options
from atoll.cluster import archipelago_state
from atoll.runs import baselines, text_format
from atoll.runs import progress as run_progress
from atoll.runs.summary import count_failures, format_result, list_best_candidates

type RunToEnd = Callable[[runs.Session], None]  # runs a session until it ends


def run_baselines(
    run_store: store.Store,
    run_id: str,
    unsafe_options: runs.UnsafeOptions,
    console: Console,
    is_quiet: bool,
    run_to_end: RunToEnd,
) -> Sequence[baselines.Baseline]:
    """Runs the baselines of a run and returns all of them. One without a summary has the reason, or has not run."""
    results = list[baselines.Baseline]()
    for baseline in baselines.find_baselines(run_store, run_id):
        try:
            session = baselines.start(run_store, run_id, baseline.name, allowed=unsafe_options)
        except errors.SetupError as error:
            results.append(baselines.Baseline(baseline.name, None, str(error)))
            continue
        if not is_quiet:
            terminal.print_line(console, f"Baseline {baseline.title}: run {session.run_id}.")
        with session:
            run_to_end(session)
        summary = runs.summarize(run_store, session.run_id)
        results.append(baselines.Baseline(baseline.name, summary, summary.reason))
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
    """Prints the results of the baselines, or the command that runs them."""
    if all(baseline.summary is None and not baseline.reason for baseline in results):
        command_note = (
            f" Run them: {terminal.get_program_name()} resume {summary.run} --baselines{format_store_option(run_store)}"
            if results
            else ""
        )
        terminal.print_line(console, f"\nBaselines: not run.{command_note}")
        return
    command = f"{terminal.get_program_name()} resume {summary.run} --baselines{format_store_option(run_store)}"
    terminal.print_line(console, f"\n{baselines.format_heading(results, command)}:")
    for baseline in results:
        if baseline.summary is None:
            terminal.print_line(
                console, f"  {baseline.title:24} not run{f': {baseline.reason}' if baseline.reason else ''}"
            )
            continue
        totals, end_note = (
            baseline.summary.totals,
            "" if baseline.summary.status == "done" else f", {baseline.summary.reason}",
        )
        usage = f"{totals.evaluations:,} evaluations" + (
            f", {totals.cost.calls:,} LLM calls" if totals.cost.calls else ""
        )
        score = text_format.format_number(baseline.summary.best_score)
        terminal.print_line(
            console, f"  {baseline.title:24} {score:>12}  {usage}, run {baseline.summary.run}{end_note}"
        )
    if (winner := baselines.find_winner(results, summary.best_score)) is not None and winner.summary is not None:
        show_command = f"{terminal.get_program_name()} best {winner.summary.run}{format_store_option(run_store)}"
        terminal.print_line(console, f"  {winner.title} beats this run: {show_command}")


def format_store_option(run_store: store.Store) -> str:
    """Returns the `--store` option for a command, empty for the default store."""
    store_url = run_store.database.name
    return (
        ""
        if store_url == os.environ.get("ATOLL_STORE", options.DEFAULT_STORE)
        else f" --store {shlex.quote(store_url)}"
    )


TITLES = {"engine": "mutators", "model": "LLM"}  # keys of a system's report that have another title in the header
PROSE_TITLES = ("comment", "description", "docstring")  # texts of the task, shortened in the header


def run_session(
    session: runs.Session,
    run_store: store.Store,
    *,
    as_json: bool,
    quiet: bool = False,
    baseline_options: runs.UnsafeOptions | None = None,
    trackers: Sequence[str] = (),
) -> int:
    """Runs a session and prints its result. Returns the exit status.

    Progress goes to stderr, the result to stdout. Ctrl-C finishes the running iterations and saves. A second Ctrl-C
    raises KeyboardInterrupt.

    Args:
        session: The run.
        run_store: Its store.
        as_json: Print the result as one line of JSON.
        quiet: Print no progress.
        baseline_options: Safety checks that the user waives for the baselines; None runs no baselines.
        trackers: Names of experiment trackers.

    Raises:
        RunFailed: The run failed. All results so far are saved.
        StoreFailed: The store was moved or deleted.
    """
    console, started_at = terminal.get_stderr_console(), time.monotonic()
    failure: errors.RunFailed | None = None
    result: Mapping[str, Any] = {}
    if not quiet:
        _print_introduction(session, run_store, console, has_baselines=baseline_options is not None)
    with session, _print_warnings(session, console, quiet), terminal.interrupt_on_sigterm():
        try:
            with _track(session, run_store, trackers):
                _run_with_progress(session, console, quiet)
            result = session.conclude()
        except errors.RunFailed as error:
            failure = error
    run_store.database.check_identity()
    seconds = time.monotonic() - started_at
    summary = runs.summarize(run_store, session.run_id)
    baseline_results = baselines.find_baselines(run_store, session.run_id)
    if baseline_options is not None and summary.status == "done":
        baseline_results = _run_baselines_with_progress(session, run_store, baseline_options, quiet)
    session_end = _SessionEnd(session, run_store, summary, seconds, baseline_results, result)
    if not (quiet or failure):
        session_end.print_result(console if as_json else terminal.get_stdout_console())
    if as_json:
        terminal.print_json(
            {**session_end.to_data(), "status": "failed", "error": str(failure)} if failure else session_end.to_data()
        )
    if failure is not None:
        raise failure
    return 1 if summary.status == "failed" else 0


def _print_introduction(
    session: runs.Session, run_store: store.Store, console: Console, *, has_baselines: bool
) -> None:
    """Prints id, store and sandbox of the run, and its settings when it starts."""
    terminal.print_line(console, f"Run {session.run_id} in {run_store.database.name}, sandbox {session.sandbox}.")
    baseline_note = {}
    if has_baselines:
        baseline_note["baselines"] = baselines.describe(session.budget, session.run_config.run.llm)
    session.evolver.use_profiler(lambda event: print_setup(console, event, baseline_note))


class _SessionEnd(NamedTuple):
    """Result of a session."""

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
            list_best_candidates(self.result),
            str(self.result.get("law", "")),
        )
        for line in format_result(self.result):
            terminal.print_line(console, line)
        if self.session.ray_stats is not None:
            terminal.print_line(console, f"ray: {self.session.ray_stats}.")

    def to_data(self) -> dict[str, Any]:
        data = {**self.summary.to_data(), "seconds": round(self.seconds, 3), **self.result}
        if self.session.ray_stats is not None:
            data["executor"] = self.session.ray_stats.to_data()
        data["baselines"] = {baseline.name: baseline.to_data() for baseline in self.baseline_results}
        return data


def _run_baselines_with_progress(
    session: runs.Session, run_store: store.Store, unsafe_options: runs.UnsafeOptions, quiet: bool
) -> list[baselines.Baseline]:
    """Runs the baselines of a completed run. A failing baseline does not affect the run."""
    console = terminal.get_stderr_console()

    def run_to_end(baseline_session: runs.Session) -> None:
        with (
            _print_warnings(baseline_session, console, quiet),
            terminal.interrupt_on_sigterm(),
            suppress(errors.RunFailed),
        ):
            _run_with_progress(baseline_session, console, quiet)

    return list(run_baselines(run_store, session.run_id, unsafe_options, console, quiet, run_to_end))


def _track(session: runs.Session, run_store: store.Store, names: Sequence[str]) -> AbstractContextManager[None]:
    if not names:
        return nullcontext()
    from atoll.runs import trackers

    return trackers.track(session, run_store, names)


class _WarningPrinter(logging.Handler):
    """Prints the warnings of a run among its progress, but not a failure that has its own line there."""

    def __init__(self, session: runs.Session, console: Console) -> None:
        super().__init__()
        self._console, self._hides_failures = console, progress.has_candidate_lines(session)

    def emit(self, record: logging.LogRecord) -> None:
        if self._hides_failures and record.name == archipelago_state.log.name:
            return
        terminal.print_line(self._console, f"  {record.getMessage()}")


@contextmanager
def _print_warnings(session: runs.Session, console: Console, quiet: bool) -> Iterator[None]:
    log, handler = logging.getLogger("atoll"), logging.NullHandler() if quiet else _WarningPrinter(session, console)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _run_with_progress(session: runs.Session, console: Console, quiet: bool) -> None:
    progress_view = progress.NoProgress() if quiet else progress.make_progress_view(session, console)
    gc.freeze()  # imported modules stay; the garbage collector need not scan them
    with progress_view:
        try:
            session.run(progress_view.refresh)
        except KeyboardInterrupt:
            terminal.print_line(console, "Finishing the running iterations. Press Ctrl-C again to stop at once.")
            session.evolver.stop("interrupted")
        finally:
            gc.unfreeze()


def print_setup(
    console: Console, event: archipelago.EvolverEvent | system.OnStarted, extra_facts: Mapping[str, str] = EMPTY
) -> None:
    """Prints the settings when a run starts.

    Texts of the task are cut to the console width, other values are wrapped. Texts of several lines are printed below
    their title.
    """
    if not isinstance(event, system.OnStarted):
        return
    facts = {TITLES.get(key, key): str(value).rstrip() for key, value in {**extra_facts, **event.payload}.items()}
    if "source" in facts:
        facts.pop("docstring", None)  # part of the source
    width = max((len(title) for title, fact in facts.items() if fact and "\n" not in fact), default=0)
    for title, fact in facts.items():
        if "\n" in fact:
            lines = textwrap.indent(fact, "      ").splitlines()
            terminal.print_line(console, f"  {title}")
            for line in lines:
                terminal.print_line(console, terminal.truncate(line, console.width) if title in PROSE_TITLES else line)
        elif fact:
            width_left = max(console.width - width - 4, terminal.MIN_WIDTH)
            first, *more_lines = (
                [terminal.truncate(text_format.escape_control(fact), width_left)]
                if title in PROSE_TITLES
                else _wrap(fact, width_left)
            )
            terminal.print_line(console, f"  {title:{width}}  {first}")
            for line in more_lines:
                terminal.print_line(console, f"  {'':{width}}  {line}")
    terminal.print_line(console, "")


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
    law: str = "",
) -> None:
    """Prints status, usage, scores, the best candidate, baselines and next commands.

    Runs with several problems print a table instead of one best candidate. A law search prints the law that held-out
    rows chose, not the candidate with the best training score.
    """
    totals, cost = summary.totals, summary.totals.cost
    usage_parts = [
        _count(totals.steps, "iteration"),
        _count(totals.evaluations, "evaluation"),
        _count(totals.failures, "failure"),
    ]
    if cost.calls:
        usage_parts += [
            _count(cost.calls, "LLM call"),
            f"{cost.tokens_in + cost.tokens_out:,} tokens",
            f"${cost.usd:.4f}",
        ]
    status = summary.status.capitalize() + (f" ({summary.reason})" if summary.reason != summary.status else "")
    terminal.print_line(console, f"{status} after {seconds:.1f} s: {', '.join(usage_parts)}.")
    if summary.status == "done" and not totals.steps and summary.reason.startswith("score "):
        text = "The initial candidate already has the target score, so nothing was searched."
        terminal.print_line(console, f"{text} Raise run.target, or remove it from atoll.toml.")
    if summary.call_yield is not None:
        terminal.print_line(console, f"Yield {summary.call_yield}.")
        if gains := run_progress.compute_mutator_gains(run_store, summary.run):
            terminal.print_line(console, f"Gains: {', '.join(map(str, gains))}.")
    _print_failure_warning(console, run_store, summary)
    best = run_store.candidates(summary.run).get(summary.best) if summary.best else None
    position = f"  {summary.best}, island {best.island}, iteration {best.step}" if best else ""
    if candidate_ids:
        position += "; fitness from 0 to 1, the table has the scores"
    initial_error, best_error = (text_format.format_error(e) for e in (summary.initial_error, summary.best_error))
    terminal.print_line(console, f"\n  initial  {text_format.format_number(summary.initial_score)}{initial_error}")
    terminal.print_line(console, f"  best     {text_format.format_number(summary.best_score)}{best_error}{position}\n")
    if summary.is_gain_within_noise:
        terminal.print_line(console, "The difference is within the noise of the evaluator, so it is not a gain.\n")
    elif summary.is_noisy:
        terminal.print_line(console, "The evaluator is noisy (± standard error): the same seed gives another run.\n")
    best_content = (
        text_format.format_candidate(summary.system, best.content) if best and best.step and not candidate_ids else ""
    )
    if law:
        best_content = f"{law}\n(chosen on held-out rows; {summary.best} has the best training score)"
    for line in progress.cut_excerpt(best_content).splitlines():
        terminal.print_line(console, f"    {line}")
    print_baselines(console, run_store, baseline_results, summary)
    terminal.print_line(console, f"Saved as run {summary.run} in {run_store.database.name}. Next:")
    for purpose, command in next_commands(run_store, summary, candidate_ids):
        terminal.print_line(console, f"  {purpose + ':':26} {command}")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _print_failure_warning(console: Console, run_store: store.Store, summary: runs.Summary) -> None:
    """Warns if more than half of the iterations failed, with the most common reason."""
    if summary.totals.failures * 2 > summary.totals.steps:
        commonest = count_failures(run_store, summary.run).failures[0]
        warning = (
            f"More than half of the iterations failed. Most common reason ({commonest.count}): {commonest.text[:300]}"
        )
        terminal.print_line(console, warning)


def next_commands(
    run_store: store.Store, summary: runs.Summary, candidate_ids: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """Returns next steps as pairs of purpose and command."""
    program, run, store_option = terminal.get_program_name(), summary.run, format_store_option(run_store)
    commands = [("print the best candidate", f"{program} best {run}{store_option}")]
    commands += (
        [("show one of them by id", f"{program} show {run} {candidate_ids[0]}{store_option}")] if candidate_ids else []
    )
    if summary.status != "done" and "shared" not in run_store.get_run(run).config:  # a shared run cannot be resumed
        return [*commands, ("continue", f"{program} resume {run}{store_option}")]
    if summary.best == "0.0" and not summary.totals.cost.calls and "iterations used" in summary.reason:
        return [
            *commands,
            ("search longer", f"{program} resume {run} --iterations {10 * max(summary.totals.steps, 1)}{store_option}"),
        ]
    last = ("show its ancestors", "lineage") if summary.system != "survival" else ("show all episodes", "report")
    return [*commands, (last[0], f"{program} {last[1]} {run}{store_option}")]
