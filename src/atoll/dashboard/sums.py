"""What is added up from a journal, record by record, and kept: a look at a long run costs only what is new."""

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from threading import Lock
from typing import ClassVar

import msgspec

from atoll import store
from atoll.store import events

SPAN = 20_000  # records looked through at a time: about 10 ms


class Sums(ABC):
    """Numbers of a run, as far as its journal was read.

    Attributes:
        kinds: Of the records that are read.
        seq: How far it was read.
        end: How long the journal was at the last look.
    """

    kinds: ClassVar[Sequence[str]]

    def __init__(self, kept: store.Store, run: str) -> None:
        self._events, self._lock = events.Events(kept, run), Lock()
        self.seq = self.end = 0

    @property
    def is_counted(self) -> bool:
        """Says whether all that was there at the last look is in the numbers."""
        return self.seq >= self.end

    def advance(self, seconds: float) -> bool:
        """Reads on for so long at most; returns whether it came to the end."""
        deadline = time.monotonic() + seconds
        with self._lock:
            self.end = self._events.end()
            while self.seq < self.end:
                last = min(self.seq + SPAN, self.end)
                for row in self._events.folded(self.kinds, self.seq + 1, last):
                    with contextlib.suppress(msgspec.ValidationError, TypeError):  # a record of others looks different
                        self._take(*row)
                self.seq = last
                if time.monotonic() >= deadline:
                    break
            self._look()
        return self.is_counted

    @abstractmethod
    def _take(self, kind: str, step: int, island: int, text: str) -> None:
        """Adds a record."""

    def _look(self) -> None:  # noqa: B027 - most need not hear of it
        """Hears that a look ended."""
