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

    def get[T](self, key: Hashable, stamp: Hashable, compute: Callable[[], T]) -> T:
        """Returns the cached response, or computes it.

        Args:
            key: Name of the response.
            stamp: Version of the data. With another stamp, a response is reused only for a time set by its cost.
            compute: Computes the response; may run in several threads at once.
        """
        with self._lock:
            entry = self._entries.get(key)
        now = self._clock()
        if entry is not None and (entry.stamp == stamp or now - entry.created_at < REUSE_FACTOR * entry.seconds):
            value: T = entry.value
            return value
        value = compute()
        with self._lock:
            self._entries[key] = _CacheEntry(stamp, value, self._clock(), self._clock() - now)
            self._entries.move_to_end(key)
            while len(self._entries) > MAX_ENTRIES:
                self._entries.popitem(last=False)
        return value


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
