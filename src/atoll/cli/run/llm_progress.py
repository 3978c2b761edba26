"""Progress of an LLM run: a line per candidate and, on a terminal, a live status with the waiting call and a bar."""

import time
from contextlib import ExitStack
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from atoll import archipelago, control, errors, runs, system
from atoll.cli.run import candidate_lines
from atoll.cli.terminal import console as terminal
from atoll.runs import limits, text_format

REFRESH_RATE = 5.0  # per second
HEARTBEAT_SECONDS = 30.0  # without a terminal: time after which a status line is printed
MIN_SHARE = 0.01  # of the tightest limit; with less of it used, the remaining time is unknown
MIN_USD = 0.00005  # a lower cost would read $0.0000
BAR_WIDTH = 30
_LIMIT_ORDER = ("calls", "usd", "tokens", "evaluations", "iterations", "seconds")  # of equal shares the first counts
_UNITS = {"evaluations": "evaluations", "iterations": "iterations", "calls": "LLM calls", "tokens": "tokens"}


class LimitUse(NamedTuple):
    """Use of one limit of the budget: amounts at the start of this session, now, and at most."""

    name: str
    start: float
    used: float
    limit: float

    @property
    def share(self) -> float:
        """Share used in this session of the amount that was left at its start."""
        available = self.limit - self.start
        return min(1.0, (self.used - self.start) / available) if available > 0 else 1.0

    def __str__(self) -> str:
        if self.name == "usd":
            return f"${self.used:.4f} of ${self.limit:g}"
        if self.name == "seconds":
            return f"{min(self.used, self.limit):.0f} of {self.limit:g} s"  # the last iterations may take longer
        return f"{self.used:,.0f} of {self.limit:,.0f} {_UNITS[self.name]}"


class SessionUsage:
    """Amounts that a session has used, with those of earlier sessions of the run."""

    def __init__(self, session: runs.Session) -> None:
        self._session, self._started_at = session, time.monotonic()
        self._start = self._read_cost()
        self._iterations: tuple[int, int] | None = None  # at the start and now; known after the first iteration
        self._evaluations = (0, 0)
        self._estimated_use: LimitUse | None = None
        self._ends_at = self._started_at

    def count(self, applied: system.AppliedIteration) -> None:
        """Counts an applied iteration."""
        if self._iterations is None:
            self._iterations = applied.applied_count - 1, applied.applied_count
            self._evaluations = applied.usage.evaluations - len(applied.result.children), applied.usage.evaluations
        self._iterations = self._iterations[0], applied.applied_count
        self._evaluations = self._evaluations[0], applied.usage.evaluations

    @property
    def usd(self) -> float:
        return self._read_cost()["usd"]

    @property
    def calls(self) -> int:
        return int(self._read_cost()["calls"])

    def find_tightest(self) -> LimitUse | None:
        """Returns the limit that is likely to end the run; None without a limit."""
        cost, budget = self._read_cost(), self._get_budget()
        amounts: dict[str, tuple[float, float]] = {name: (self._start[name], cost[name]) for name in cost}
        amounts |= {"iterations": self._iterations or (0, 0), "evaluations": self._evaluations}
        amounts["seconds"] = (0.0, time.monotonic() - self._started_at)
        budget_limits = limits.get_limits(budget)
        uses = [LimitUse(name, *amounts[name], limit) for name in _LIMIT_ORDER if (limit := budget_limits[name])]
        return max(uses, key=lambda use: use.share, default=None)

    def estimate_seconds_left(self, tightest: LimitUse) -> float | None:
        """Estimates the time until a limit is reached; None at the beginning and when the estimate is over."""
        now, share = time.monotonic(), tightest.share
        if self._estimated_use != tightest:  # between two changes the time counts down
            seconds, self._estimated_use = now - self._started_at, tightest
            self._ends_at = now - seconds + seconds / share if share >= MIN_SHARE else now
        return self._ends_at - now if self._ends_at > now else None

    def _get_budget(self) -> control.Budget:
        """Returns the current limits; an ordered run keeps its limit of seconds apart."""
        return replace(self._session.evolver.budget, seconds=self._session.budget.seconds)

    def _read_cost(self) -> dict[str, float]:
        used = self._session.llm_budget.used if self._session.llm_budget else control.Usage().cost
        return {"calls": used.calls, "tokens": used.tokens_in + used.tokens_out, "usd": used.usd}


class LLMProgress:
    """Prints a line for each candidate. On a terminal it shows the status of the run below the lines."""

    def __init__(self, session: runs.Session, console: Console) -> None:
        self._session, self._evolver, self._console = session, session.evolver, console
        self._usage, self._exits = SessionUsage(session), ExitStack()
        is_live = console.is_terminal and not console.is_dumb_terminal
        self._lock = Lock()  # a line printed while the status starts would continue the line of the status
        # Its own thread draws the status, so that it is current also while an interrupted run waits for its calls.
        self._live = Live(
            console=console,
            get_renderable=self._draw,
            refresh_per_second=REFRESH_RATE,
            redirect_stdout=False,
            transient=True,
        )
        self._is_live, self._has_lines, self._printed_at = is_live, False, time.monotonic()
        budget = session.budget
        self._call_digits = len(str(budget.calls or budget.iterations or 1))

    def __enter__(self) -> Self:
        self._exits.callback(self._evolver.use_profiler(self._on_event))
        return self

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._live.stop()  # does nothing if it has not started
        self._exits.close()

    def refresh(self) -> None:
        if self._is_live and not self._live.is_started:
            with self._lock:
                self._live.start(refresh=True)
        elif not self._is_live and time.monotonic() - self._printed_at >= HEARTBEAT_SECONDS:
            status = (self._describe_wait(), *self._describe_usage(), self._describe_best())
            self._print_line(", ".join(part for part in status if part))

    def _on_event(self, event: Any) -> None:
        if isinstance(event, system.OnIterationApplied):
            self._usage.count(event.payload)
            for line in candidate_lines.iter_lines(event.payload):
                for text in line.format(self._console.width, self._call_digits):
                    self._print_line(text, line.style)
        elif isinstance(event, archipelago.OnBestIslandImproved) and not self._has_lines:
            best = self._evolver.best_fn()
            if best.candidate is not None and best.candidate.iteration == 0:
                self._print_line(f"initial program: {self._describe_best().removeprefix('best ')}")

    def _print_line(self, line: str, style: str = "") -> None:
        self._printed_at, self._has_lines = time.monotonic(), True
        with self._lock:
            terminal.print_line(self._console, line, style)

    def _describe_wait(self) -> str:
        tracker = self._session.call_tracker
        call = tracker.find_longest() if tracker is not None else None
        if call is None:
            return "evaluating"
        count = f" ({call.num_calls} calls)" if call.num_calls > 1 else ""
        model = text_format.format_one_line(call.model, 40)
        return f"waiting for {model}, {call.seconds:.0f} s{count}"

    def _describe_best(self) -> str:
        try:
            best = self._evolver.best_fn().evaluation
        except errors.NotFound:  # before the first evaluation
            return ""
        return f"best {best.score:.8g}" if best is not None and best.score is not None else ""

    def _describe_usage(self) -> list[str]:
        """Returns the use of the tightest limit, the cost if it is known, and the remaining time."""
        tightest, usd = self._usage.find_tightest(), self._usage.usd
        parts = [f"{self._usage.calls:,} LLM calls" if tightest is None else str(tightest)]
        parts += [f"${usd:.4f}"] if usd >= MIN_USD and (tightest is None or tightest.name != "usd") else []
        seconds = None if tightest is None else self._usage.estimate_seconds_left(tightest)
        return parts if seconds is None else [*parts, f"{format_duration(seconds)} left"]

    def _draw(self) -> Group:
        wait = "  ".join(part for part in (self._describe_wait(), self._describe_best()) if part)
        usage = Text("  ".join(self._describe_usage()), style="dim", no_wrap=True, overflow="ellipsis")
        tightest, last_line = self._usage.find_tightest(), Table.grid(padding=(0, 2))
        row: list[RenderableType] = [usage]
        if tightest is not None:
            width = min(BAR_WIDTH, max(5, self._console.width // 3))
            share = min(1.0, tightest.used / tightest.limit)
            bar = ProgressBar(total=1.0, completed=share, width=width, complete_style="green", finished_style="green")
            row.insert(0, bar)
        last_line.add_row(*row)
        return Group(Text(wait, style="cyan", no_wrap=True, overflow="ellipsis"), last_line)


def format_duration(seconds: float) -> str:
    """Formats an estimated time."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
