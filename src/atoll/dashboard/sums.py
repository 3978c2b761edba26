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

BATCH_RECORDS = 20_000  # records looked through at a time: about 10 ms


class JournalTotals(ABC):
    """Numbers of a run, as far as its journal was read.

    Attributes:
        kinds: Of the records that are read.
        seq: How far it was read.
        end: How long the journal was at the last look.
    """

    kinds: ClassVar[Sequence[str]]

    def __init__(self, run_store: store.Store, run: str) -> None:
        self._queries, self._lock = events.RecordQueries(run_store, run), Lock()
        self.seq = self.end = 0

    @property
    def is_counted(self) -> bool:
        """Says whether all that was there at the last look is in the numbers."""
        return self.seq >= self.end

    def advance(self, seconds: float) -> bool:
        """Reads on for so long at most; returns whether it came to the end."""
        deadline = time.monotonic() + seconds
        with self._lock:
            self.end = self._queries.get_end()
            while self.seq < self.end:
                last = min(self.seq + BATCH_RECORDS, self.end)
                for row in self._queries.list_rows(self.kinds, self.seq + 1, last):
                    with contextlib.suppress(msgspec.ValidationError, TypeError):  # a record of others looks different
                        self._add_record(*row)
                self.seq = last
                if time.monotonic() >= deadline:
                    break
            self._on_advanced()
        return self.is_counted

    @abstractmethod
    def _add_record(self, kind: str, step: int, island: int, text: str) -> None:
        """Adds a record."""

    def _on_advanced(self) -> None:  # noqa: B027 - most need not hear of it
        """Hears that a look ended."""
