"""Progress of `atoll.evolve`: makes events from a running session, and shows them on stderr or in a notebook."""

import html
import logging
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

from atoll import errors, runs, system
from atoll.evolve.events import Ended, Event, Improved, OnEvent, Progress, Started

log = logging.getLogger(__name__)

_LINE_SECONDS, _STATUS_SECONDS = 10.0, 0.1  # between two lines without a gain, and between two updates of a live line


class Display(Protocol):
    """Shows events to a person."""

    def show(self, event: Event) -> None: ...

    def close(self) -> None: ...


class NoDisplay:
    """Shows nothing."""

    def show(self, event: Event) -> None:
        pass

    def close(self) -> None:
        pass


class PlainDisplay:
    """Prints a line on stderr at every gain, and one every ten seconds."""

    def __init__(self) -> None:
        self._printed_at = time.monotonic()
        self._score: float | None = None
        self._last: Progress | None = None

    def show(self, event: Event) -> None:
        if isinstance(event, Progress):
            has_gain = self._score is not None and event.score > self._score
            self._last, self._score = event, event.score
            if has_gain or time.monotonic() - self._printed_at > _LINE_SECONDS:
                self._printed_at = time.monotonic()
                _print_line(str(event))
        elif isinstance(event, Ended):
            usage = f"{self._last}; " if self._last else ""
            _print_line(f"{usage}ended: {event.reason}")

    def close(self) -> None:
        pass


def _print_line(text: str) -> None:
    sys.stderr.write(f"atoll: {text}\n")
    sys.stderr.flush()


class TerminalDisplay:
    """Shows a live line on stderr, with rich."""

    def __init__(self) -> None:
        from rich.console import Console  # slow import

        self._console = Console(stderr=True)
        self._status = self._console.status("evaluating the initial candidate")
        self._status.start()
        self._updated_at, self._last = 0.0, ""

    def show(self, event: Event) -> None:
        if isinstance(event, Progress):
            self._last = str(event)
            if time.monotonic() - self._updated_at > _STATUS_SECONDS:
                self._updated_at = time.monotonic()
                self._status.update(self._last)
        elif isinstance(event, Ended):
            self._status.stop()
            self._console.print(f"{self._last}; ended: {event.reason}", markup=False, highlight=False)

    def close(self) -> None:
        self._status.stop()


class NotebookDisplay:
    """Shows one line of HTML in a notebook, without widgets."""

    def __init__(self) -> None:
        from IPython import display  # type: ignore[import-not-found, unused-ignore]  # only in notebooks

        self._make_html: Callable[[str], Any] = display.HTML
        self._handle = display.display(display.HTML("<i>evaluating the initial candidate</i>"), display_id=True)
        self._updated_at, self._last = 0.0, ""

    def show(self, event: Event) -> None:
        if isinstance(event, Progress):
            self._last = str(event)
            if time.monotonic() - self._updated_at > _STATUS_SECONDS:
                self._updated_at = time.monotonic()
                self._update(self._last)
        elif isinstance(event, Ended):
            self._update(f"{self._last}; ended: {event.reason}")

    def _update(self, text: str) -> None:
        if self._handle is not None:
            self._handle.update(self._make_html(f"<div>{html.escape(text)}</div>"))

    def close(self) -> None:
        pass


def make_display(*, verbose: bool) -> Display:
    """Returns the display for this process: a notebook, a terminal, or plain lines."""
    if not verbose:
        return NoDisplay()
    shell = sys.modules.get("IPython")
    is_notebook = shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"
    if is_notebook:
        return NotebookDisplay()
    return TerminalDisplay() if sys.stderr.isatty() else PlainDisplay()


class ProgressReporter:
    """Turns the state of a session into events, and passes them to the display and to `on_event`.

    Args:
        count_calls: Returns the number of evaluator calls so far.
        on_event: Callback of the user. If it raises, that is logged once, and the run continues without it.
    """

    def __init__(self, display: Display, on_event: OnEvent | None, count_calls: Callable[[runs.Session], int]) -> None:
        self._display, self._on_event, self._count_calls = display, on_event, count_calls
        self._started_at = time.monotonic()
        self._session: runs.Session | None = None
        self._initial_score: float | None = None

    def start(self, session: runs.Session, kind: str, *, is_resumed: bool) -> None:
        """Begins with a session that has not started yet."""
        self._session = session
        session.evolver.use_profiler(self._observe)
        self._emit(Started(session.run_id, kind, is_resumed))

    def _observe(self, event: Any) -> None:
        if isinstance(event, system.OnIterationApplied):
            self._report_iteration(event.payload)

    def _report_iteration(self, applied: system.AppliedIteration) -> None:
        result = applied.result
        for fn, decision in result.children:
            score = fn.evaluation.score if fn.evaluation else None
            is_best = score is not None and (applied.best_score is None or score > applied.best_score)
            if is_best and score is not None and decision.verdict == "accept" and fn.candidate is not None:
                idea = str(fn.candidate.meta.get("idea") or "")
                self._emit(Improved(fn.candidate.id, score, applied.best_score, fn.candidate.content, idea))
        outcome = result.failure or "; ".join(decision.reason or decision.verdict for _, decision in result.children)
        if (progress := self._make_progress(outcome)) is not None:
            self._emit(progress)

    def _make_progress(self, outcome: str = "") -> Progress | None:
        session = self._session
        if session is None:
            return None
        best = errors.capture(session.evolver.best_fn)
        if isinstance(best, errors.CaughtException):
            return None
        usage, score = session.evolver.usage, best.evaluation.score if best.evaluation else None
        if score is None:
            return None
        if self._initial_score is None:
            self._initial_score = session.read_initial_score()
        if self._initial_score is None:
            return None
        cost = usage.cost
        return Progress(
            usage.iterations,
            score,
            self._initial_score,
            self._count_calls(session),
            cost.calls,
            cost.tokens_in + cost.tokens_out,
            cost.usd,
            time.monotonic() - self._started_at,
            outcome,
        )

    def poll(self) -> None:
        """Updates the display between two iterations."""
        if not isinstance(self._display, NoDisplay) and (progress := self._make_progress()) is not None:
            self._display.show(progress)

    def end(self, status: str, reason: str, score: float) -> None:
        """Reports the end of the run."""
        self._emit(Ended(status, reason, score))
        self._display.close()

    def close(self) -> None:
        self._display.close()

    def _emit(self, event: Event) -> None:
        self._display.show(event)
        if self._on_event is None:
            return
        result = errors.capture(lambda: self._on_event and self._on_event(event))
        if isinstance(result, errors.CaughtException):
            log.warning("on_event raised %s; it is not called any more", result)
            self._on_event = None
