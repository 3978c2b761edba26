"""The contract of every source of logged decisions."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol, runtime_checkable

from atoll.governed.logs.entry import LogEntry

type LogPosition = Any  # plain data that only the source understands


class ReadIssue(NamedTuple):
    """A line that could not be read.

    Attributes:
        path: Its file, as the source was named.
        line: Its number, from 1.
        offset: Where it begins, in bytes.
        error: What is wrong with it.
    """

    path: str
    line: int
    offset: int
    error: str


class LogSource(Protocol):
    """Where logged decisions come from.

    Yields them one by one, so that a log need not fit into memory; those of one source keep their order from one
    reading to the next.
    """

    def read(self, since: datetime, until: datetime) -> Iterator[LogEntry]:
        """Yields the decisions from `since` to `until`, both included."""


class LogReader(Protocol):
    """A reading under way, which also tells where it stands and what it could not read."""

    def __iter__(self) -> Iterator[LogEntry]: ...

    @property
    def position(self) -> LogPosition:
        """Where to go on after the entry that was yielded last."""

    @property
    def issues(self) -> Sequence[ReadIssue]:
        """The first lines that could not be read."""

    @property
    def num_issues(self) -> int:
        """How many there were in all."""

    @property
    def num_in_progress(self) -> int:
        """Files whose last line has no end yet: somebody is writing it, and nothing is wrong."""


@runtime_checkable
class Resumable(Protocol):
    """A source that can go on where an earlier reading stopped, without reading again what came before."""

    def open_reader(self, since: datetime, until: datetime, *, after: LogPosition = None) -> LogReader:
        """Starts a reading, from the first entry or after a place."""
