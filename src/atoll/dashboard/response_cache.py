"""Cache of API responses. Unchanged data is not recomputed; expensive responses are refreshed rarely."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, NamedTuple

from atoll import store

MAX_ENTRIES = 256
REUSE_FACTOR = 5.0  # a response that took one second is reused for five


class _CacheEntry(NamedTuple):
    stamp: Hashable
    value: Any
    created_at: float
    seconds: float


class ResponseCache:
    """Keeps the newest responses."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._entries, self._lock = clock, OrderedDict[Hashable, _CacheEntry](), Lock()
        self._running: dict[Hashable, Lock] = {}

    def get[T](self, key: Hashable, stamp: Hashable, compute: Callable[[], T]) -> T:
        """Returns the cached response, or computes it. Requests for the same response wait for the first of them.

        Args:
            key: Name of the response.
            stamp: Version of the data. With another stamp, a response is reused only for a time set by its cost.
            compute: Computes the response.
        """
        entry = self._find(key, stamp)
        if entry is None:
            with self._lock:
                running = self._running.setdefault(key, Lock())
            with running:
                entry = self._find(key, stamp) or self._compute(key, stamp, compute)
        value: T = entry.value
        return value

    def _find(self, key: Hashable, stamp: Hashable) -> _CacheEntry | None:
        with self._lock:
            entry = self._entries.get(key)
        if entry is None:
            return None
        is_fresh = entry.stamp == stamp or self._clock() - entry.created_at < REUSE_FACTOR * entry.seconds
        return entry if is_fresh else None

    def _compute(self, key: Hashable, stamp: Hashable, compute: Callable[[], object]) -> _CacheEntry:
        start_time = self._clock()
        try:
            value = compute()
            entry = _CacheEntry(stamp, value, self._clock(), self._clock() - start_time)
        finally:
            with self._lock:
                self._running.pop(key, None)
        with self._lock:
            self._entries[key] = entry
            self._entries.move_to_end(key)
            while len(self._entries) > MAX_ENTRIES:
                self._entries.popitem(last=False)
        return entry


class PerRunCache[T]:
    """Objects that are created once per run."""

    def __init__(self, run_store: store.Store, make: Callable[[store.Store, str], T]) -> None:
        self._run_store, self._make, self._items, self._lock = run_store, make, dict[str, T](), Lock()

    def get(self, run: str) -> T:
        """Returns the object of a run, and creates it if needed.

        Raises:
            NotFound: The run does not exist.
        """
        with self._lock:
            item = self._items.get(run)
        if item is None:
            new_item = self._make(self._run_store, run)
            with self._lock:
                item = self._items.setdefault(run, new_item)
        return item
