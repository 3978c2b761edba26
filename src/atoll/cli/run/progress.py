"""Progress of a run: a live table on a terminal, elsewhere one line per improvement."""

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from atoll import archipelago, config, control, errors, function, runs, system
from atoll.cli.run import llm_progress
from atoll.cli.terminal import console
from atoll.runs import text_format

REFRESH_SECONDS = 0.1
HEARTBEAT_SECONDS = 10.0  # time after which a line without news is printed
MAX_ISLANDS = 12  # rows of the live table; the best islands are shown


class ProgressView(Protocol):
    """Shows the progress of a run inside a `with` block."""

    def refresh(self) -> None:
        """Updates the display. Called often."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *raised: object) -> None: ...


def has_candidate_lines(session: runs.Session) -> bool:
    """Returns whether each candidate of a run gets a line."""
    return session.run_config.system == "programs" and session.call_tracker is not None


def make_progress_view(session: runs.Session, console: Console) -> ProgressView:
    """Returns lines of candidates for programs that an LLM changes; otherwise a live table for a terminal, or lines.

    A law search prints lines too: the laws that lower the front of error and size.
    Without an LLM a run evaluates hundreds of candidates per second, too many for a line each.
    """
    if has_candidate_lines(session):
        return llm_progress.LLMProgress(session, console)
    is_law_search = getattr(session.run_config.task, "data", None) is not None  # its lines show the front as it grows
    is_live = console.is_terminal and not console.is_dumb_terminal and not is_law_search
    return LiveTable(session, console) if is_live else ProgressLines(session, console)


def format_one_line(program: str, initial: str, system: str = "") -> str:
    """Returns the change of a program to the initial one, on one line. The initial program shows its last code line."""
    if program != initial or config.get_display_format(system) is not None:
        return text_format.summarize_candidate(system, program, initial)
    lines = [line.strip() for line in program.strip().split("\n")]
    return text_format.escape_control(
        next((line for line in reversed(lines) if line and not line.startswith("#")), lines[-1])
    )


def cut_excerpt(program: str, num_lines: int = 30) -> str:
    """Returns the first lines of a program."""
    lines = program.strip().splitlines()
    more_note = [f"... {len(lines) - num_lines} more lines"] if len(lines) > num_lines else []
    return "\n".join([*lines[:num_lines], *more_note])


def make_summarizer(session: runs.Session) -> Callable[[function.Function], system.CandidateSummary]:
    """Returns a function that summarizes candidates, by the system or by their change to the initial program."""

    def summarize(fn: function.Function) -> system.CandidateSummary:
        if session.summarize_candidate is None:
            return system.CandidateSummary(
                "", format_one_line(str(fn.skeleton()), session.initial_program, session.run_config.system)
            )
        group, description = session.summarize_candidate(fn)
        return system.CandidateSummary(group, text_format.escape_control(description))

    return summarize


class NoProgress:
    """Shows nothing."""

    def refresh(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        pass


class LiveTable:
    """Live table of the islands."""

    def __init__(self, session: runs.Session, console: Console) -> None:
        self._evolver, self._budget, self._summarize = session.evolver, session.budget, make_summarizer(session)
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False)
        self._started_at = self._drawn_at = time.monotonic()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._live.update(self._draw(), refresh=True)
        self._live.stop()

    def refresh(self) -> None:
        if time.monotonic() - self._drawn_at >= REFRESH_SECONDS:
            self._live.update(self._draw(), refresh=True)
            self._drawn_at = time.monotonic()

    def _draw(self) -> Group:
        table = Table(box=None, pad_edge=False, header_style="dim", expand=True)
        for heading in ("island", "resets", "best", "iteration"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("", ratio=1, no_wrap=True, overflow="ellipsis")
        with suppress(errors.NotFound):  # the population is empty before the first evaluation
            self._fill(table)
        return Group(table, Text(), Text(self._format_status(), style="dim", no_wrap=True, overflow="ellipsis"), Text())

    def _fill(self, table: Table) -> None:
        best = self._evolver.best_fn().evaluation
        rows = [(island, island.best_fn()) for island in self._evolver.islands]
        if len(rows) > MAX_ISLANDS:
            rows = sorted(rows, key=lambda row: function.get_fitness(row[1]), reverse=True)[:MAX_ISLANDS]
        for island, fn in rows:
            cells = (
                str(island.index),
                str(island.epoch),
                text_format.format_number(fn.score()),
                str(_get_iteration(fn)),
            )
            is_best = fn.evaluation is best
            table.add_row(*cells, Text(self._summarize(fn).text), style="bold green" if is_best else "")

    def _format_status(self) -> str:
        usage, seconds = self._evolver.usage, time.monotonic() - self._started_at
        rate = usage.evaluations / max(seconds, 0.001)
        parts = [
            f"{usage.iterations:,} iterations",
            f"{usage.evaluations:,} evaluations",
            f"{rate:,.0f}/s",
            f"{seconds:.0f} s",
        ]
        if usage.cost.calls:
            tokens = usage.cost.tokens_in + usage.cost.tokens_out
            parts[2:2] = [f"{usage.cost.calls:,} LLM calls", f"{tokens:,} tokens", f"${usage.cost.usd:.4f}"]
        remaining = estimate_seconds_left(self._budget, usage, seconds)
        return "   ".join([*parts, *([f"{remaining:.0f} s left"] if remaining is not None else [])])


def estimate_seconds_left(budget: control.Budget, usage: control.Usage, seconds: float) -> float | None:
    """Estimates the seconds until the first limit is reached. Returns None at the beginning and without limits."""
    cost = usage.cost
    used_amounts = {
        "iterations": usage.iterations,
        "evaluations": usage.evaluations,
        "calls": cost.calls,
        "usd": cost.usd,
    }
    used_amounts |= {"seconds": seconds, "tokens": cost.tokens_in + cost.tokens_out}
    limits = {name: getattr(budget, name) for name in used_amounts}
    used_fractions = [value / limit for name, value in used_amounts.items() if (limit := limits[name])]
    used_fraction = max(used_fractions, default=0.0)
    return max(0.0, seconds / used_fraction - seconds) if used_fraction > 0.01 else None


class ProgressLines:
    """One line for each new best candidate, and one from time to time without news."""

    def __init__(self, session: runs.Session, console: Console) -> None:
        self._evolver, self._summarize, self._console = session.evolver, make_summarizer(session), console
        self._best_by_group, self._started_at = dict[str, float](), time.monotonic()
        self._printed_at, self._last_iteration = self._started_at, 0
        self._exits = ExitStack()

    def __enter__(self) -> Self:
        self._exits.callback(
            self._evolver.islands[0].use_profiler(self._on_event)
        )  # one island reports the events of all
        return self

    def __exit__(self, *raised: object) -> None:
        self._exits.close()

    def refresh(self) -> None:
        if time.monotonic() - self._printed_at >= HEARTBEAT_SECONDS:
            usage, best = self._evolver.usage, max(self._best_by_group.values(), default=None)
            self._print_line(
                usage.iterations, f"{usage.evaluations:,} evaluations, best {text_format.format_number(best)}"
            )

    def _print_line(self, iteration: int, message: str) -> None:
        """Prints a line. With several workers an earlier iteration may end later; the number printed never falls."""
        self._printed_at, self._last_iteration = time.monotonic(), max(self._last_iteration, iteration)
        seconds = self._printed_at - self._started_at
        console.print_line(self._console, f"{seconds:7.1f} s  iteration {self._last_iteration:>6,}  {message}")

    def _on_event(self, event: archipelago.IslandEvent) -> None:
        fn = event.payload
        if not self._best_by_group:
            self._record_earlier_bests(_get_iteration(fn))
        if self._record_if_best(fn):
            self._print_line(
                _get_iteration(fn),
                f"best {text_format.format_number(fn.score()):>12}  {self._summarize(fn).text[:100]}",
            )

    def _record_earlier_bests(self, iteration: int) -> None:
        """Records the best scores of a resumed run before this iteration."""
        with suppress(errors.NotFound):
            for best in (self._evolver.best_fn(), *(island.best_fn() for island in self._evolver.islands)):
                if _get_iteration(best) < iteration:
                    self._record_if_best(best)

    def _record_if_best(self, fn: function.Function) -> bool:
        """Records the score of a candidate. Returns whether it is the best of its group."""
        score, group = fn.evaluation.score if fn.evaluation else None, self._summarize(fn).group
        if score is None or score <= self._best_by_group.get(group, -float("inf")):
            return False
        self._best_by_group[group] = score
        return True


def _get_iteration(fn: function.Function) -> int:
    return fn.candidate.iteration if fn.candidate else 0
