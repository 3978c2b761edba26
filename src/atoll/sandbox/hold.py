"""A hand on a request that runs, by which another thread can end it."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Protocol


class Killable(Protocol):
    """Whoever works on a request, as far as that can be ended.

    Attributes:
        is_spent: Whether it is of no more use.
    """

    is_spent: bool

    def kill(self) -> None:
        """Ends what it works on; called from any thread."""


class Hold:
    """Ends one request: before it starts, or by the death of the process that works on it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: Killable | None = None
        self.is_cancelled = False

    def cancel(self) -> None:
        """Kills the process if there is one, and lets none begin."""
        with self._lock:
            self.is_cancelled = True
            if self._process:
                self._process.kill()

    @contextmanager
    def attach(self, process: Killable) -> Iterator[None]:
        """Holds a process as long as it works on the request, and not a moment longer: then it is another's."""
        with self._lock:
            self._process = process
        try:
            yield
        finally:
            with self._lock:
                self._process = None
                process.is_spent = process.is_spent or self.is_cancelled
