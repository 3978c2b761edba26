"""Replays logged decisions with what came of them."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from threading import Event, Lock
from typing import Any, NamedTuple

from atoll import errors
from atoll.governed.feedback.channel import FeedbackChannel
from atoll.governed.logs import moments
from atoll.governed.logs.entry import LogEntry
from atoll.governed.logs.source import LogSource, Reading, Resumable
from atoll.governed.replay import checkpoint
from atoll.governed.replay.attribution import Attribution, first_touch
from atoll.governed.replay.cache import DEFAULT_BYTES, Histories
from atoll.governed.replay.event import Reflector, ReplayEvent, Stateful
from atoll.governed.replay.report import Report

type Filter = Callable[[LogEntry], bool]
type Tell = Callable[[str], None]

WEEK = timedelta(days=7)
EVERY = 50_000  # entries between two checkpoints

_log = logging.getLogger(__name__)


class Replayer:
    """Pairs every decision of a log with its feedback and tells the reflectors, one event after the other.

    Args:
        source: Where decisions come from.
        feedback: Where measurements come from; asked once per entity and replay.
        window: How long after a decision its feedback may come.
        attribution: Which feedback belongs to a decision; the earliest of each metric.
        by_observed: Counts feedback from when it happened, where somebody said so, and not from its record.
        cache_bytes: How much feedback is kept in memory; the rest waits in a temporary file.
        max_errors: Gives up when reflectors have raised so often; None: never.
        tell: Told what a reflector raised.

    Raises:
        SetupError: The source or the feedback is missing, or the window is not above 0.
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
        tell: Tell | None = None,
    ) -> None:
        for name, given in (("source", source), ("feedback", feedback)):
            if given is None:
                raise errors.SetupError(f"A replay needs a {name}: give one.")
        if window <= timedelta(0):
            raise errors.SetupError(f"window={window}: feedback needs some time after a decision, e.g. 7 days.")
        self._source, self._feedback, self._window = source, feedback, window
        self._attribution, self._by_observed, self._cache_bytes = attribution, by_observed, cache_bytes
        self._max_errors, self._tell = max_errors, tell or _log.warning
        self._reflectors: list[Reflector] = []
        self._lock = Lock()

    def register(self, reflector: Reflector) -> None:
        """Adds a reflector, for replays that start from now on; one added twice hears everything twice."""
        with self._lock:
            self._reflectors.append(reflector)

    def replay(
        self,
        since: datetime,
        until: datetime,
        keep: Filter | None = None,
        *,
        checkpoint_path: str | os.PathLike[str] | None = None,
        every: int = EVERY,
        stop: Event | None = None,
    ) -> Report:
        """Replays the decisions from `since` to `until`, both included.

        Args:
            keep: Lets a decision in.
            checkpoint_path: Written every so many decisions and at the end. A replay that was cut goes on from there,
                and ends with the same report; reflectors that are no `Stateful` start empty.
            stop: Ends the replay between two decisions once it is set.

        Raises:
            Unreadable: A line of the log is no entry, and the source's policy is to stop.
            RunFailed: Reflectors raised more than `max_errors` times.
        """
        with self._lock:
            reflectors = tuple(self._reflectors)
        run = Run(self._request(since, until, reflectors), reflectors, self._tell, self._max_errors)
        run.resume(checkpoint_path)
        histories = Histories(self._feedback, since, by_observed=self._by_observed, limit=self._cache_bytes)
        pairing = Pairing(histories, self._attribution, self._window // moments.MICROSECOND)
        run.dispatch(run.events(self._source, since, until, pairing, Admission(keep, every, stop)))
        return run.finish()

    def _request(self, since: datetime, until: datetime, reflectors: Sequence[Reflector]) -> Mapping[str, Any]:
        return {
            "since": since.isoformat(),
            "until": until.isoformat(),
            "window": self._window / moments.MICROSECOND,
            "attribution": getattr(self._attribution, "__name__", repr(self._attribution)),
            "by_observed": self._by_observed,
            "reflectors": [type(each).__name__ for each in reflectors],
        }


class Pairing(NamedTuple):
    """What feedback a decision gets."""

    histories: Histories
    attribution: Attribution
    window: int


class Admission(NamedTuple):
    """Which decisions are let in, and for how long."""

    keep: Filter | None
    every: int
    stop: Event | None


class Run:
    """One replay under way."""

    def __init__(
        self, request: Mapping[str, Any], reflectors: Sequence[Reflector], tell: Tell, max_errors: int | None
    ) -> None:
        self._request, self._reflectors, self._tell, self._max_errors = request, reflectors, tell, max_errors
        self._path: str | os.PathLike[str] | None = None
        self._after: Any = None
        self._reading: Reading | None = None
        self._at = 0
        self._failure: BaseException | None = None
        self.report = Report()

    def resume(self, path: str | os.PathLike[str] | None) -> None:
        """Takes up a checkpoint, if there is one."""
        self._path = path
        found = checkpoint.read(path, self._request) if path is not None else None
        if found is not None:
            self._after, self.report = found.place, Report.from_data(found.report)
            for reflector, state in zip(self._reflectors, found.states, strict=True):
                if isinstance(reflector, Stateful):
                    reflector.restore(state)

    def _read(self, source: LogSource, since: datetime, until: datetime) -> Iterator[LogEntry]:
        if isinstance(source, Resumable):
            self._reading = source.begin(since, until, after=self._after)
            return iter(self._reading)
        return islice(source.read(since, until), self.report.entries, None)

    def events(
        self, source: LogSource, since: datetime, until: datetime, pairing: "Pairing", admission: "Admission"
    ) -> Iterator[ReplayEvent]:
        """Yields the events of each decision: one per measurement that belongs to it, or one without any.

        When it is asked for the next event, the reflectors are done with the last.
        """
        (histories, attribution, window), (keep, every, stop) = pairing, admission
        epoch, unit, report = moments.EPOCH, moments.MICROSECOND, self.report
        kept, load = histories.kept, histories.get
        try:
            for entry in self._read(source, since, until):
                if stop is not None and stop.is_set():
                    report.is_stopped = True
                    return
                report.entries += 1
                if keep is None or keep(entry):
                    at = (entry.timestamp - epoch) // unit
                    history = None if histories.num_evicted else kept.get(entry.entity)
                    found = attribution(history or load(entry.entity), entry, at, at + window)
                    if found:
                        report.paired += len(found)
                        for each in found:
                            yield ReplayEvent(entry, each)
                    else:
                        report.pending += 1
                        yield ReplayEvent(entry)
                else:
                    report.filtered += 1
                if self._path is not None and not report.entries % every:
                    self._save(self._path)
        except BaseException as error:
            self._failure = error  # of the source, the feedback or the filter: not of a reflector
            raise

    def dispatch(self, events: Iterator[ReplayEvent]) -> None:
        """Tells all reflectors of all events; one that raises misses nothing but this event."""
        tell_all = self._tell_one(events) if len(self._reflectors) == 1 else self._tell_several(events)
        while isinstance(caught := errors.attempt(tell_all), errors.Caught):
            if caught.error is self._failure:
                raise caught.error
            self._count(caught)

    def _tell_one(self, events: Iterator[ReplayEvent]) -> Callable[[], None]:
        on_event = self._reflectors[0].on_event

        def tell_all() -> None:
            for event in events:
                on_event(event)

        return tell_all

    def _tell_several(self, events: Iterator[ReplayEvent]) -> Callable[[], None]:
        numbered = [(place, reflector.on_event) for place, reflector in enumerate(self._reflectors)]
        calls = ((place, on_event, event) for event in events for place, on_event in numbered)

        def tell_all() -> None:
            for place, on_event, event in calls:
                self._at = place
                on_event(event)

        return tell_all

    def _count(self, caught: errors.Caught) -> None:
        name = f"{self._at}: {type(self._reflectors[self._at]).__name__}"
        self.report.count_error(name, str(caught))
        self._tell(f"Reflector {name} raised {caught}")
        if self._max_errors is not None and self.report.num_errors > self._max_errors:
            raise errors.RunFailed(
                f"Reflectors raised {self.report.num_errors} times, last {name}: {caught}"
            ) from caught.error

    def finish(self) -> Report:
        """Returns the report, and leaves a checkpoint where one is wanted."""
        if self._path is not None:
            self._save(self._path)
        return self._so_far()

    def _so_far(self) -> Report:
        """Returns the counts of this reading and of those that it goes on from."""
        found = Report.from_data(self.report.to_data())
        if self._reading is not None:
            found.count_issues(self._reading.num_issues, self._reading.issues)
            found.in_progress += self._reading.num_in_progress
        return found

    def _save(self, path: str | os.PathLike[str]) -> None:
        place = None if self._reading is None else self._reading.place
        states = [each.state() if isinstance(each, Stateful) else None for each in self._reflectors]
        checkpoint.Checkpoint(self._request, place, self._so_far().to_data(), states).write(path)
