"""Answers that are kept a while: nobody pays twice for a look at what has not changed, nor often for a dear one."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, NamedTuple

from atoll import store

MAX_ENTRIES = 256
REUSE_FACTOR = 5.0  # an answer that took a second is good for five


class _CacheEntry(NamedTuple):
    stamp: Hashable
    value: Any
    created_at: float
    seconds: float


class ResponseCache:
    """Keeps the newest answers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._entries, self._lock = clock, OrderedDict[Hashable, _CacheEntry](), Lock()

    def get[T](self, key: Hashable, stamp: Hashable, compute: Callable[[], T]) -> T:
        """Returns an answer made before, or makes it.

        Args:
            key: What is asked.
            stamp: What the answer depends on. With another stamp one is good for as long only as it was dear.
            make: Makes it; several threads may do so at once.
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
    """What is made once for each run of a store."""

    def __init__(self, run_store: store.Store, make: Callable[[store.Store, str], T]) -> None:
        self._run_store, self._make, self._items, self._lock = run_store, make, dict[str, T](), Lock()

    def get(self, run: str) -> T:
        """Returns what there is of a run, however far it is.

        Raises:
            NotFound: There is no such run.
        """
        with self._lock:
            item = self._items.get(run)
        if item is None:
            new_item = self._make(self._run_store, run)
            with self._lock:
                item = self._items.setdefault(run, new_item)
        return item
