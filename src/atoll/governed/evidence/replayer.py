"""LogReplayer: pairs logged decisions with feedback and passes them to reflectors."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from threading import Event, Lock
from typing import Any, NamedTuple

from atoll import errors
from atoll.governed.evidence import day_files, replay_report
from atoll.governed.evidence.attribution import Attribution, first_touch
from atoll.governed.evidence.feedback import FeedbackChannel
from atoll.governed.evidence.feedback_history import DEFAULT_BYTES, FeedbackCache
from atoll.governed.evidence.logs import LogEntry, LogReader, LogSource, Resumable
from atoll.governed.evidence.replay_report import Reflector, ReplayEvent, ReplayReport, Stateful

type EntryFilter = Callable[[LogEntry], bool]
type LogMessage = Callable[[str], None]

WEEK = timedelta(days=7)
CHECKPOINT_EVERY = 50_000  # entries between two checkpoints

_log = logging.getLogger(__name__)


class LogReplayer:
    """Pairs every decision of a log with its feedback and passes the events to the reflectors in order.

    Args:
        source: Logged decisions.
        feedback: Measurements; queried once per entity and replay.
        window: Latest arrival of feedback after a decision.
        attribution: Selects the feedback of a decision; default: the earliest of each metric.
        by_observed: Use the observed time of feedback, where given, instead of its record time.
        cache_bytes: Memory for feedback; the rest goes to a temporary file.
        max_errors: Fail after this many exceptions of reflectors; None: never.
        log_message: Called with the message of each exception.

    Raises:
        SetupError: The source or the feedback is missing, or the window is not positive.
    """

    def __init__(
        self,
        source: LogSource,
        feedback: FeedbackChannel,
        *,
        window: timedelta = WEEK,
        attribution: Attribution = first_touch,
        by_observed: bool = False,
        cache_bytes: int = DEFAULT_BYTES,
        max_errors: int | None = None,
        log_message: LogMessage | None = None,
    ) -> None:
        for name, argument in (("source", source), ("feedback", feedback)):
            if argument is None:
                raise errors.SetupError(f"LogReplayer needs a {name}.")
        if window <= timedelta(0):
            raise errors.SetupError(f"window={window}: use a positive time, e.g. 7 days.")
        self._source, self._feedback, self._window = source, feedback, window
        self._attribution, self._by_observed, self._cache_bytes = attribution, by_observed, cache_bytes
        self._max_errors, self._log_message = max_errors, log_message or _log.warning
        self._reflectors: list[Reflector] = []
        self._lock = Lock()

    def register(self, reflector: Reflector) -> None:
        """Adds a reflector for later replays. One added twice gets every event twice."""
        with self._lock:
            self._reflectors.append(reflector)

    def replay(
        self,
        since: datetime,
        until: datetime,
        entry_filter: EntryFilter | None = None,
        *,
        checkpoint_path: str | os.PathLike[str] | None = None,
        checkpoint_every: int = CHECKPOINT_EVERY,
        stop: Event | None = None,
    ) -> ReplayReport:
        """Replays the decisions from `since` to `until`, both inclusive.

        Args:
            entry_filter: Selects decisions.
            checkpoint_path: Written every `checkpoint_every` decisions and at the end. An interrupted replay continues
                from it with the same final report. Reflectors that are not `Stateful` start empty.
            stop: Ends the replay before the next decision once set.

        Raises:
            InvalidLogLine: A line of the log is invalid and the source's policy is `raise`.
            RunFailed: Reflectors raised more than `max_errors` times.
        """
        with self._lock:
            reflectors = tuple(self._reflectors)
        run = ReplayRun(self._request(since, until, reflectors), reflectors, self._log_message, self._max_errors)
        run.resume(checkpoint_path)
        histories = FeedbackCache(self._feedback, since, by_observed=self._by_observed, max_bytes=self._cache_bytes)
        matcher = FeedbackMatcher(histories, self._attribution, self._window // day_files.MICROSECOND)
        run.dispatch(
            run.events(self._source, since, until, matcher, ReplayOptions(entry_filter, checkpoint_every, stop))
        )
        return run.finish()

    def _request(self, since: datetime, until: datetime, reflectors: Sequence[Reflector]) -> Mapping[str, Any]:
        return {
            "since": since.isoformat(),
            "until": until.isoformat(),
            "window": self._window / day_files.MICROSECOND,
            "attribution": getattr(self._attribution, "__name__", repr(self._attribution)),
            "by_observed": self._by_observed,
            "reflectors": [type(reflector).__name__ for reflector in reflectors],
        }


class FeedbackMatcher(NamedTuple):
    """Finds the feedback of a decision."""

    histories: FeedbackCache
    attribution: Attribution
    window: int


class ReplayOptions(NamedTuple):
    """Options of one replay."""

    entry_filter: EntryFilter | None
    checkpoint_every: int
    stop: Event | None


class ReplayRun:
    """One active replay."""

    def __init__(
        self,
        request: Mapping[str, Any],
        reflectors: Sequence[Reflector],
        log_message: LogMessage,
        max_errors: int | None,
    ) -> None:
        self._request = request
        self._reflectors = reflectors
        self._log_message = log_message
        self._max_errors = max_errors
        self._path: str | os.PathLike[str] | None = None
        self._position: Any = None
        self._reader: LogReader | None = None
        self._reflector_index = 0
        self._failure: BaseException | None = None
        self.report = ReplayReport()

    def resume(self, path: str | os.PathLike[str] | None) -> None:
        """Loads a checkpoint if it exists."""
        self._path = path
        saved = replay_report.read_checkpoint(path, self._request) if path is not None else None
        if saved is not None:
            self._position, self.report = saved.place, ReplayReport.from_data(saved.report)
            for reflector, state in zip(self._reflectors, saved.states, strict=True):
                if isinstance(reflector, Stateful):
                    reflector.restore(state)

    def _iter_entries(self, source: LogSource, since: datetime, until: datetime) -> Iterator[LogEntry]:
        if isinstance(source, Resumable):
            self._reader = source.open_reader(since, until, after=self._position)
            return iter(self._reader)
        return islice(source.read(since, until), self.report.entries, None)

    def events(
        self, source: LogSource, since: datetime, until: datetime, matcher: "FeedbackMatcher", options: "ReplayOptions"
    ) -> Iterator[ReplayEvent]:
        """Yields the events of each decision: one per measurement, or one without feedback.

        When the next event is requested, all reflectors have handled the last one.
        """
        (histories, attribution, window), (entry_filter, checkpoint_every, stop) = matcher, options
        epoch, unit, report = day_files.EPOCH, day_files.MICROSECOND, self.report
        cached_histories, load = histories.histories, histories.get
        try:
            for entry in self._iter_entries(source, since, until):
                if stop is not None and stop.is_set():
                    report.is_stopped = True
                    return
                report.entries += 1
                if entry_filter is None or entry_filter(entry):
                    start = (entry.timestamp - epoch) // unit
                    history = None if histories.num_evicted else cached_histories.get(entry.entity)
                    matches = attribution(history or load(entry.entity), entry, start, start + window)
                    if matches:
                        report.paired += len(matches)
                        for feedback in matches:
                            yield ReplayEvent(entry, feedback)
                    else:
                        report.pending += 1
                        yield ReplayEvent(entry)
                else:
                    report.filtered += 1
                if self._path is not None and not report.entries % checkpoint_every:
                    self._save(self._path)
        except BaseException as error:
            self._failure = error  # raised by the source, the feedback or the filter, not by a reflector
            raise

    def dispatch(self, events: Iterator[ReplayEvent]) -> None:
        """Passes all events to all reflectors. A reflector that raises misses only that event."""
        dispatch_all = (
            self._make_single_dispatch(events) if len(self._reflectors) == 1 else self._make_multi_dispatch(events)
        )
        while isinstance(caught := errors.capture(dispatch_all), errors.CaughtException):
            if caught.error is self._failure:
                raise caught.error
            self._count_error(caught)

    def _make_single_dispatch(self, events: Iterator[ReplayEvent]) -> Callable[[], None]:
        on_event = self._reflectors[0].on_event

        def dispatch_all() -> None:
            for event in events:
                on_event(event)

        return dispatch_all

    def _make_multi_dispatch(self, events: Iterator[ReplayEvent]) -> Callable[[], None]:
        handlers = [(index, reflector.on_event) for index, reflector in enumerate(self._reflectors)]
        calls = ((index, on_event, event) for event in events for index, on_event in handlers)

        def dispatch_all() -> None:
            for index, on_event, event in calls:
                self._reflector_index = index
                on_event(event)

        return dispatch_all

    def _count_error(self, caught: errors.CaughtException) -> None:
        name = f"{self._reflector_index}: {type(self._reflectors[self._reflector_index]).__name__}"
        self.report.count_error(name, str(caught))
        self._log_message(f"Reflector {name} raised {caught}")
        if self._max_errors is not None and self.report.num_errors > self._max_errors:
            raise errors.RunFailed(
                f"{self.report.num_errors} errors of reflectors, last {name}: {caught}"
            ) from caught.error

    def finish(self) -> ReplayReport:
        """Writes the final checkpoint, if requested, and returns the report."""
        if self._path is not None:
            self._save(self._path)
        return self._build_report()

    def _build_report(self) -> ReplayReport:
        """Returns the counts, including those of the resumed checkpoint."""
        report = ReplayReport.from_data(self.report.to_data())
        if self._reader is not None:
            report.count_issues(self._reader.num_issues, self._reader.issues)
            report.in_progress += self._reader.num_in_progress
        return report

    def _save(self, path: str | os.PathLike[str]) -> None:
        position = None if self._reader is None else self._reader.position
        states = [reflector.state() if isinstance(reflector, Stateful) else None for reflector in self._reflectors]
        replay_report.ReplayCheckpoint(self._request, position, self._build_report().to_data(), states).write(path)
