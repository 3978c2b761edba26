"""Logs: decisions as they were made, in files, in a database or in memory."""

from atoll.governed.logs.database import SQLLog
from atoll.governed.logs.entry import LogEntry
from atoll.governed.logs.files import FileLog
from atoll.governed.logs.issues import InvalidLogLine
from atoll.governed.logs.memory import MemoryLog
from atoll.governed.logs.source import LogSource, LogReader, ReadIssue, Resumable

__all__ = [
    "FileLog",
    "LogEntry",
    "LogSource",
    "MemoryLog",
    "ReadIssue",
    "LogReader",
    "Resumable",
    "SQLLog",
    "InvalidLogLine",
]
