"""Progress of an LLM run: a line per candidate with its change in words, and a live status on a terminal."""

import math
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple, Self

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from atoll import archipelago, control, errors, evaluation, function, gate, runs, system
from atoll.cli.terminal import console as terminal
from atoll.runs import limits, text_format

MIN_TEXT_WIDTH = 8  # columns; a narrower change or reason is omitted
_MAX_TEXT_CHARS = 200
_MAX_DECIMALS = 17
_LONG_DECIMALS = 8  # a difference with more is written with an exponent
_RAISED = re.compile(r"the mutator raised (\w+): ")
_CHANGED_LINES = re.compile(r"(\d+) lines removed, (\d+) added")
_OUTCOME_WIDTH = 8  # that of "new best"
_NOT_CODE = ("#", '"""', "'''")  # start of comments and docstrings
_STYLES = {"new best": "bold green", "better": "green", "worse": "", "equal": ""}


class CandidateLine(NamedTuple):
    """One line of progress.

    Attributes:
        call: Number of LLM calls of the run so far; None: no LLM made the candidate.
        scores: Score of the parent and of the child, and their difference.
        outcome: The outcome in a few words.
        text: The change, or the reason of a failure.
        seconds: Time of the LLM calls and the evaluation; None: printed with a later candidate of the iteration.
    """

    call: int | None
    scores: str
    outcome: str
    text: str
    seconds: float | None

    @property
    def style(self) -> str:
        return _STYLES.get(self.outcome, "dim")

    def format(self, width: int, call_digits: int = 1) -> list[str]:
        """Returns the line. Only the text is shortened to the width; that of a new best gets its own line instead."""
        call = " " * (5 + call_digits) if self.call is None else f"call {self.call:>{call_digits}}"
        start = f"{call}  {self.scores} {self.outcome:{_OUTCOME_WIDTH}}"
        end = "" if self.seconds is None else f"  {self.seconds:.1f} s"
        text, width_left = text_format.format_one_line(self.text, _MAX_TEXT_CHARS), width - len(start) - len(end) - 2
        if self.outcome == "new best" and cell_len(text) > width_left:
            indent = " " * (len(call) + 2)
            return [f"{start}{end}", f"{indent}{terminal.truncate(text, max(width - len(indent), MIN_TEXT_WIDTH))}"]
        if not text or width_left < MIN_TEXT_WIDTH:
            return [f"{start}{end}"]
        return [f"{start}  {terminal.truncate(text, width_left)}{end}"]


def iter_lines(applied: system.AppliedIteration) -> Iterator[CandidateLine]:
    """Yields a line for each child of an iteration, or one about an unusable response.

    An iteration without an LLM call, for example of the tuner, gets a line only for a new best candidate.
    """
    result, best_score = applied.result, -math.inf if applied.best_score is None else applied.best_score
    call = applied.usage.cost.calls if result.cost.calls else None
    if result.failure is not None:
        outcome, reason = _describe_failure(result.failure)
        if outcome and (call is not None or outcome == "no response"):
            scores = f"{_format_score(_find_parent_score(result))} ->"
            yield CandidateLine(applied.usage.cost.calls, scores, outcome, reason, result.cost.seconds)
    for index, (fn, decision) in enumerate(result.children):
        score = fn.evaluation.score if fn.evaluation else None
        is_best = decision.verdict == "accept" and score is not None and score > best_score
        if is_best and score is not None:
            best_score = score
        if call is not None or is_best:
            seconds = result.cost.seconds if index == len(result.children) - 1 else None
            yield _describe_child(result, fn, decision, is_best=is_best)._replace(call=call, seconds=seconds)


def _describe_child(
    result: function.IterationResult, fn: function.Function, decision: gate.Decision, *, is_best: bool
) -> CandidateLine:
    parent_score, evaluated = _find_parent_score(result, fn), fn.evaluation
    if evaluated is None:
        return CandidateLine(None, f"{_format_score(parent_score)} ->", "not evaluated", decision.reason, None)
    if evaluated.score is None:
        return CandidateLine(None, f"{_format_score(parent_score)} ->", "failed", _shorten_failure(evaluated), None)
    scores = format_scores(parent_score, evaluated.score)
    if decision.verdict != "accept":
        outcome = "held" if decision.verdict == "hold" else "rejected"
        return CandidateLine(None, scores, outcome, decision.reason, None)
    outcome = "new best" if is_best else _compare(parent_score, evaluated.score)
    return CandidateLine(None, scores, outcome, describe_change(fn.candidate.meta if fn.candidate else {}), None)


def _compare(parent_score: float | None, score: float) -> str:
    if parent_score is None:
        return "scored"
    return "equal" if score == parent_score else "better" if score > parent_score else "worse"


def _find_parent_score(result: function.IterationResult, fn: function.Function | None = None) -> float | None:
    """Returns the score of a child's first parent; without a child, that of the best parent."""
    candidate = fn.candidate if fn is not None else None
    by_id = {parent.candidate.id: parent for parent in result.parents if parent.candidate}
    parent = by_id.get(candidate.parents[0]) if candidate and candidate.parents else None
    parent = parent or (result.parents[-1] if result.parents else None)
    return parent.evaluation.score if parent is not None and parent.evaluation else None


def describe_change(meta: Mapping[str, Any]) -> str:
    """Returns the idea of a candidate, else a summary of its changed lines, else the name of its mutator."""
    idea, change = meta.get("idea"), meta.get("change")
    if isinstance(idea, str) and idea.strip():
        return idea
    if isinstance(change, str) and (counts := _CHANGED_LINES.match(change)):
        added_lines = [line[2:] for line in change.splitlines() if line.startswith("+ ")]
        line = next((line for line in added_lines if not line.startswith(_NOT_CODE)), "")
        return f"-{counts[1]} +{counts[2]} lines{f': {line}' if line else ''}"
    return str(meta.get("engine") or "")


def _describe_failure(failure: str) -> tuple[str, str]:
    """Returns the outcome and the reason of an iteration without children; no outcome if the budget is used up."""
    raised = _RAISED.match(failure)
    kind, reason = (raised[1], failure[raised.end() :]) if raised else ("", failure)
    if kind in ("BudgetExhausted", "BudgetUsed"):
        return "", reason
    return ("no response" if kind == "LLMError" else "unusable response"), reason


def _shorten_failure(evaluated: evaluation.Evaluation) -> str:
    """Returns the error of a failed evaluation; of a traceback, its last line."""
    lines = [line.strip() for line in str(evaluated.failure).strip().splitlines() if line.strip()]
    is_traceback = any(line.startswith("Traceback (most recent call last)") for line in lines)
    return lines[-1] if is_traceback else " ".join(lines)


def format_scores(old: float | None, new: float) -> str:
    """Formats two scores with enough digits to distinguish them, and their difference."""
    if old is None:
        return f"- -> {_format_score(new)}"
    difference = new - old
    largest, has_only_integers = max(abs(old), abs(new)), old.is_integer() and new.is_integer()
    if has_only_integers and largest < 1e15:
        return f"{old:.0f} -> {new:.0f} ({difference:+.0f})"
    if largest >= 1e7 or 0 < largest < 1e-3:
        digits = next((digits for digits in range(7, 17) if f"{old:.{digits}g}" != f"{new:.{digits}g}"), 7)
        return f"{old:.{digits}g} -> {new:.{digits}g} ({difference:+.3g})"
    # The difference of unequal scores has a digit other than 0 too.
    decimals = next((d for d in range(6, _MAX_DECIMALS) if old == new or abs(difference) >= 10**-d), _MAX_DECIMALS)
    short_difference = f"{difference:+.{decimals}f}" if decimals <= _LONG_DECIMALS else f"{difference:+.2g}"
    return f"{old:.{decimals}f} -> {new:.{decimals}f} ({short_difference})"


def _format_score(score: float | None) -> str:
    if score is None:
        return "-"
    if score.is_integer() and abs(score) < 1e15:
        return f"{score:.0f}"
    return f"{score:.6f}" if 1e-3 <= abs(score) < 1e7 else f"{score:.7g}"


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
        self._is_plain, self._plain_width = not console.is_terminal, console.width
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
            for line in iter_lines(event.payload):
                width = self._plain_width if self._is_plain else self._console.width
                for text in line.format(width, self._call_digits):
                    self._print_line(text, line.style)
        elif isinstance(event, archipelago.OnBestIslandImproved) and not self._has_lines:
            best = self._evolver.best_fn()
            if best.candidate is not None and best.candidate.iteration == 0:
                self._print_line(f"initial program: {self._describe_best().removeprefix('best ')}")

    def _print_line(self, line: str, style: str = "") -> None:
        self._printed_at, self._has_lines = time.monotonic(), True
        with self._lock:
            if self._is_plain:  # most of the time of a fast run would go to rich
                terminal.write_line(self._console, line)
            else:
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
