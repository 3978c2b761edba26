"""Logs: decisions as they were made, in files, in a database or in memory."""

from atoll.governed.logs.database import StoredLog
from atoll.governed.logs.entry import LogEntry
from atoll.governed.logs.files import FileLog
from atoll.governed.logs.issues import Unreadable
from atoll.governed.logs.memory import MemoryLog
from atoll.governed.logs.source import LogSource, Reading, ReadIssue, Resumable

__all__ = [
    "FileLog",
    "LogEntry",
    "LogSource",
    "MemoryLog",
    "ReadIssue",
    "Reading",
    "Resumable",
    "StoredLog",
    "Unreadable",
]
