"""Observers: anything slow or random announces what it does, and a profiler may listen."""

import logging
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Any, Protocol

log = logging.getLogger(__name__)

type Remove = Callable[[], None]
type ProfilerFn[T: Event] = Callable[[T], None]


class Event(Protocol):
    """Something that happened: a name and what it happened to."""

    @property
    def type(self) -> str: ...

    @property
    def payload(self) -> Any: ...


class Pluggable[T: Event](Protocol):
    """Takes profilers."""

    def use_profiler(self, profiler_fn: ProfilerFn[T]) -> Remove:
        """Registers a profiler and returns what removes it again.

        A profiler observes: it cannot change anything, and one that raises is reported once and never stops a run.
        """


def default_fn(event: Event) -> None:
    """Ignores every event; registering it costs nothing."""


class EventQueue:
    """Events queued under a lock and delivered after it: in order, by one thread at a time."""

    def __init__(self) -> None:
        self._queue: deque[Callable[[], None]] = deque()
        self._delivery_lock = Lock()

    def post(self, callback: Callable[[], None]) -> None:
        self._queue.append(callback)

    def deliver(self) -> None:
        """Hands out what is queued, unless another thread is at it already: then that one goes on."""
        while self._queue and self._delivery_lock.acquire(blocking=False):
            try:
                while queue := self._queue:  # only who delivers takes out of it: `discard` replaces it
                    queue.popleft()()
            finally:
                self._delivery_lock.release()

    def discard(self) -> None:
        """Forgets what is queued: it was not stored, so it did not happen."""
        self._queue = deque()


class Profilers[T: Event]:
    """The profilers registered at one place, shared by reference between clones; with `mail` they hear later."""

    __slots__ = ("_fns", "_queue", "_reported")

    def __init__(self, queue: EventQueue | None = None) -> None:
        # Replaced, never changed in place: `emit` may run on another thread meanwhile.
        self._fns: tuple[ProfilerFn[T], ...] = ()
        self._reported: frozenset[ProfilerFn[T]] = frozenset()
        self._queue = queue

    def __bool__(self) -> bool:
        return bool(self._fns)

    def use(self, profiler_fn: ProfilerFn[T]) -> Remove:
        """Registers a profiler; the returned function removes it, once or often."""
        if profiler_fn is default_fn:
            return lambda: None

        def listener(event: T) -> None:  # its own identity, so that one registered twice is called twice
            profiler_fn(event)

        def remove() -> None:
            self._fns = tuple(fn for fn in self._fns if fn is not listener)

        self._fns = (*self._fns, listener)
        return remove

    def emit(self, event: T) -> None:
        """Calls every profiler, or leaves the event in the mail."""
        if self._queue is None:
            self._call(event)
        elif self._fns:
            self._queue.post(lambda: self._call(event))

    def _call(self, event: T) -> None:
        for fn in self._fns:
            try:
                fn(event)
            except (Exception, SystemExit):
                if fn not in self._reported:
                    self._reported |= {fn}
                    log.exception("a profiler raised on %s; it is reported once and the run goes on", event.type)
