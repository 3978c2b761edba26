"""Cache for parameters that are read very often."""

import threading
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from atoll import errors
from atoll.governed.parameters.parameters import Parameters
from atoll.governed.parameters.store import Value

FOLLOW_SECONDS = 0.5  # maximum wait of `close` for the following thread is four times this

_CACHEABLE_TYPES = (str, int, float, bool, type(None))


class CachedParameters:
    """Keeps read values in memory until they change, in this or another process.

    A thread follows the store. Changes of other processes arrive within milliseconds, own changes at once. If the store
    fails, the cache is emptied and every read goes to the store. Lists and objects are not cached, since callers may
    modify them.
    """

    def __init__(self, store: Parameters) -> None:
        self.store = store
        self._cache: dict[str, Value] = {}
        self._names_by_key: dict[str, set[str]] = {}  # key to the names by which it was read: KEY, KEY@ALIAS
        self._generation, self._is_live = 0, True
        self._lock, self._stopped = threading.Lock(), threading.Event()
        seq = store.ledger.change_log.get_end().seq
        self._thread = threading.Thread(target=self._follow, args=(seq,), name="atoll-parameters", daemon=True)
        self._thread.start()

    def get(self, key: str, *, as_of: int | datetime | None = None) -> Value:
        """Same as `ParameterStore.get`."""
        if as_of is None:
            cached = self._cache.get(key)
            if cached is not None:
                return cached
        return self._read(key, as_of)

    def __getitem__(self, key: str) -> Any:
        return self.get(key).value

    def set(self, key: str, value: Any, reason: str, **options: Any) -> int:
        """Same as `ParameterStore.set`."""
        try:
            return self.store.set(key, value, reason, **options)
        finally:
            self._drop(key)

    def _read(self, key: str, as_of: int | datetime | None) -> Value:
        generation = self._generation
        value = self.store.get(key, as_of=as_of)
        if as_of is None and isinstance(value.value, _CACHEABLE_TYPES):
            with self._lock:
                if self._is_live and self._generation == generation:  # otherwise the value may be outdated
                    self._cache[key] = value
                    for name in {key, key.rpartition("@")[0]} - {""}:
                        self._names_by_key.setdefault(name, set()).add(key)
        return value

    def _drop(self, key: str) -> None:
        with self._lock:
            self._generation += 1
            for name in self._names_by_key.pop(key, ()):
                self._cache.pop(name, None)

    def _follow(self, seq: int) -> None:
        try:
            while not self._stopped.is_set():
                for entry in self.store.ledger.follow("", seq, FOLLOW_SECONDS):
                    seq = entry.seq
                    self._drop(entry.key)
                    if self._stopped.is_set():
                        return
        except errors.AtollError:
            pass  # the next read gets the error from the store
        finally:
            with self._lock:
                self._is_live = False
                self._cache.clear()

    def close(self) -> None:
        """Stops the thread. The store stays open."""
        self._stopped.set()
        self._thread.join(FOLLOW_SECONDS * 4)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
