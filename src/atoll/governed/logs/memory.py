"""Logged decisions inside one process."""

from collections.abc import Iterator
from datetime import datetime

from atoll.governed.logs.entry import LogEntry, to_utc


class MemoryLog:
    """A log that ends with the process; for fixtures and tests. Keeps the order in which entries came."""

    def __init__(self, *entries: LogEntry) -> None:
        self._entries = list(entries)

    def append(self, entry: LogEntry) -> None:
        self._entries.append(entry)

    def read(self, since: datetime, until: datetime) -> Iterator[LogEntry]:
        start, end = to_utc(since), to_utc(until)
        return (entry for entry in list(self._entries) if start <= to_utc(entry.timestamp) <= end)
