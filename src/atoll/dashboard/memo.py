"""Answers that are kept a while: nobody pays twice for a look at what has not changed, nor often for a dear one."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, NamedTuple

from atoll import store

MOST = 256
PATIENCE = 5.0  # an answer that took a second is good for five


class _Kept(NamedTuple):
    stamp: Hashable
    value: Any
    made_at: float
    took: float


class Memo:
    """Keeps the newest answers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._kept, self._lock = clock, OrderedDict[Hashable, _Kept](), Lock()

    def get[T](self, key: Hashable, stamp: Hashable, make: Callable[[], T]) -> T:
        """Returns an answer made before, or makes it.

        Args:
            key: What is asked.
            stamp: What the answer depends on. With another stamp one is good for as long only as it was dear.
            make: Makes it; several threads may do so at once.
        """
        with self._lock:
            found = self._kept.get(key)
        now = self._clock()
        if found is not None and (found.stamp == stamp or now - found.made_at < PATIENCE * found.took):
            value: T = found.value
            return value
        value = make()
        with self._lock:
            self._kept[key] = _Kept(stamp, value, self._clock(), self._clock() - now)
            self._kept.move_to_end(key)
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
        return value


class PerRun[T]:
    """What is made once for each run of a store."""

    def __init__(self, kept: store.Store, make: Callable[[store.Store, str], T]) -> None:
        self._kept, self._make, self._found, self._lock = kept, make, dict[str, T](), Lock()

    def of(self, run: str) -> T:
        """Returns what there is of a run, however far it is.

        Raises:
            NotFound: There is no such run.
        """
        with self._lock:
            found = self._found.get(run)
        if found is None:
            made = self._make(self._kept, run)
            with self._lock:
                found = self._found.setdefault(run, made)
        return found
