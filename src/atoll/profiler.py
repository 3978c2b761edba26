"""Events and their listeners: slow or random parts emit events, profilers receive them."""

import logging
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Any, Protocol

log = logging.getLogger(__name__)

type Remove = Callable[[], None]
type ProfilerFn[T: Event] = Callable[[T], None]


class Event(Protocol):
    """A notification: its type and its subject."""

    @property
    def type(self) -> str: ...

    @property
    def payload(self) -> Any: ...


class Pluggable[T: Event](Protocol):
    """Accepts profilers."""

    def use_profiler(self, profiler_fn: ProfilerFn[T]) -> Remove:
        """Registers a profiler and returns a function that removes it.

        A profiler only observes. If it raises, that is logged once and the run continues.
        """


def default_fn(event: Event) -> None:
    """Ignores every event."""


class EventQueue:
    """Events queued under a lock and delivered after its release, in order, by one thread at a time."""

    def __init__(self) -> None:
        self._queue: deque[Callable[[], None]] = deque()
        self._delivery_lock = Lock()

    def post(self, callback: Callable[[], None]) -> None:
        self._queue.append(callback)

    def deliver(self) -> None:
        """Delivers queued events, unless another thread is already delivering them."""
        while self._queue and self._delivery_lock.acquire(blocking=False):
            try:
                while queue := self._queue:  # `discard` replaces the queue; only this thread pops from it
                    queue.popleft()()
            finally:
                self._delivery_lock.release()

    def discard(self) -> None:
        """Drops queued events whose records were not stored."""
        self._queue = deque()


class Profilers[T: Event]:
    """Profilers of one object, shared between its clones. With a queue, events are delivered later."""

    __slots__ = ("_fns", "_queue", "_reported")

    def __init__(self, queue: EventQueue | None = None) -> None:
        # Replaced, never changed in place: `emit` may run on another thread.
        self._fns: tuple[ProfilerFn[T], ...] = ()
        self._reported: frozenset[ProfilerFn[T]] = frozenset()
        self._queue = queue

    def __bool__(self) -> bool:
        return bool(self._fns)

    def use(self, profiler_fn: ProfilerFn[T]) -> Remove:
        """Registers a profiler. The returned function removes it and may be called twice."""
        if profiler_fn is default_fn:
            return lambda: None

        def listener(event: T) -> None:  # a new identity: a profiler registered twice is called twice
            profiler_fn(event)

        def remove() -> None:
            self._fns = tuple(fn for fn in self._fns if fn is not listener)

        self._fns = (*self._fns, listener)
        return remove

    def emit(self, event: T) -> None:
        """Calls every profiler, or queues the event."""
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
                    log.exception("A profiler failed on event %s. This is logged once; the run continues.", event.type)
