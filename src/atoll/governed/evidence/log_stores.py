"""Decision logs in files (one per UTC day) and in a store."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime

import msgspec

from atoll import store
from atoll.governed.evidence import day_files
from atoll.governed.evidence.day_files import LineAppender, LineBlock, LineReader
from atoll.governed.evidence.logs import (
    IssuePolicy,
    LogEntry,
    LogPosition,
    ReadIssue,
    ReadIssues,
    decode,
    decode_lines,
    encode,
    to_utc,
)
from atoll.store import event_streams

POLL_SECONDS = 0.05


def now() -> datetime:
    return datetime.now(UTC)


class FileLog:
    """Log in `FOLDER/YYYY-MM-DD.jsonl`: one JSON line per decision, in the file of its UTC day.

    Any number of processes may append and read at once.

    Args:
        folder: Created if missing.
        on_issue: Treatment of invalid lines: `raise`, `skip`, or `quarantine` a copy. Later entries are never lost.
        with_lock: Lock the file for each line; needed only on network file systems.
        clock: Time of entries without a time.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        on_issue: IssuePolicy = "raise",
        with_lock: bool = False,
        clock: Callable[[], datetime] = now,
    ) -> None:
        self.folder = os.fspath(folder)
        os.makedirs(self.folder, exist_ok=True)
        self._on_issue, self._clock = on_issue, clock
        self._appender = LineAppender(with_lock=with_lock)
        ReadIssues(on_issue)  # validates the policy now instead of at the first bad line

    def append(self, entry: LogEntry) -> LogEntry:
        """Appends an entry and returns it as written: in UTC, with the current time if it had none.

        Raises:
            SetupError: The entry is not JSON data.
            StoreFailed: The entry could not be written.
        """
        if entry.timestamp.tzinfo is not UTC or entry.timestamp.year == 1:
            timestamp = self._clock() if entry.timestamp.year == 1 else entry.timestamp
            entry = msgspec.structs.replace(entry, timestamp=to_utc(timestamp))
        self._appender.append(os.path.join(self.folder, day_files.make_file_name(entry.timestamp)), encode(entry))
        return entry

    def list_days(self) -> Sequence[date]:
        """Returns the UTC days that have entries, oldest first."""
        names = (
            name for name in day_files.list_day_files(self.folder) if os.path.getsize(os.path.join(self.folder, name))
        )
        return [day for name in names if (day := day_files.parse_day(name))]

    def read(self, since: datetime, until: datetime) -> Iterator[LogEntry]:
        """Yields the entries from `since` to `until`, both inclusive, by day and in the order of writing.

        Raises:
            InvalidLogLine: A line is invalid and `on_issue` is `raise`.
        """
        return iter(self.open_reader(since, until))

    def open_reader(self, since: datetime, until: datetime, *, after: LogPosition = None) -> "FileLogReader":
        return FileLogReader(self.folder, to_utc(since), to_utc(until), ReadIssues(self._on_issue), after)

    def follow(
        self, since: datetime | None = None, *, timeout: float | None = None, poll_seconds: float = POLL_SECONDS
    ) -> Iterator[LogEntry]:
        """Yields entries as any process appends them, each once and complete.

        Args:
            since: Start with existing entries from this time; None: only new ones.
            timeout: Ends after this many seconds without an entry.
        """
        offsets: dict[str, int] = (
            {} if since else {name: self._get_size(name) for name in day_files.list_day_files(self.folder)}
        )
        start = to_utc(since) if since else datetime.min.replace(tzinfo=UTC)
        last_entry_time = time.monotonic()
        while True:
            for entry in self._read_new(start, offsets):
                yield entry
                last_entry_time = time.monotonic()
            if timeout is not None and time.monotonic() - last_entry_time >= timeout:
                return
            time.sleep(poll_seconds)

    def _read_new(self, since: datetime, offsets: dict[str, int]) -> Iterator[LogEntry]:
        for name in day_files.list_day_files(self.folder, since=since.date()):
            reader = FileLogReader(self.folder, since, datetime.max.replace(tzinfo=UTC), ReadIssues(self._on_issue))
            if self._get_size(name) > offsets.get(name, 0):
                yield from reader.read_file(name, offsets.get(name, 0))
                offsets[name] = reader.offset

    def _get_size(self, name: str) -> int:
        return os.path.getsize(os.path.join(self.folder, name))

    def close(self) -> None:
        self._appender.close()


class FileLogReader:
    """Reader of day files.

    Attributes:
        offset: End of the last complete line read from the current file.
    """

    def __init__(
        self, folder: str, since: datetime, until: datetime, issues: ReadIssues, after: LogPosition = None
    ) -> None:
        self._folder, self._since = folder, since
        self._until, self._issues = until, issues
        self._name: str = after[0] if after else ""
        self.offset: int = after[1] if after else 0
        self._block, self._num_lines_read = LineBlock(self.offset, b""), 0
        self.num_in_progress = 0

    @property
    def issues(self) -> Sequence[ReadIssue]:
        return self._issues.first_issues

    @property
    def num_issues(self) -> int:
        return self._issues.count

    @property
    def position(self) -> LogPosition:
        """Returns the file and the byte after the last yielded entry."""
        end = 0
        for _ in range(self._num_lines_read):
            end = self._block.data.index(b"\n", end) + 1
        return [self._name, self._block.offset + end]

    def __iter__(self) -> Iterator[LogEntry]:
        first, offset = self._name, self.offset
        for name in day_files.list_day_files(self._folder, self._since.date(), self._until.date()):
            if name >= first:
                yield from self.read_file(name, offset if name == first else 0)

    def read_file(self, name: str, offset: int) -> Iterator[LogEntry]:
        """Yields the entries of one file after an offset."""
        since, until, path = self._since, self._until, os.path.join(self._folder, name)
        reader, self._name = LineReader(path, offset), name
        self._block, self._num_lines_read = LineBlock(offset, b""), 0
        for block in reader.iter_blocks():
            self._block = block
            for line_number, entry in self._decode_block(path, block):
                if since <= entry.timestamp <= until:
                    self._num_lines_read = line_number
                    yield entry
        self.offset = reader.offset
        self._block, self._num_lines_read = LineBlock(reader.offset, b""), 0
        self.num_in_progress += reader.num_partial_bytes > 0

    def _decode_block(self, path: str, block: LineBlock) -> Iterator[tuple[int, LogEntry]]:
        """Returns the entries of a block, each with the number of lines read so far."""
        try:
            entries = decode_lines(block.data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return self._decode_each_line(path, block)
        if len(entries) == block.data.count(b"\n") and {entry.timestamp.tzinfo for entry in entries} <= {UTC}:
            return enumerate(entries, 1)
        return self._decode_each_line(path, block)  # empty lines, or times in other zones

    def _decode_each_line(self, path: str, block: LineBlock) -> Iterator[tuple[int, LogEntry]]:
        offset = block.offset
        for line_number, line in enumerate(block.data.split(b"\n"), 1):
            if line.strip():
                try:
                    entry = decode(line)
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                    self._issues.add(path, offset, line, error)
                else:
                    yield line_number, entry
            offset += len(line) + 1


STREAM = "decisions"


class SQLLog:
    """Log in a store: `SQLLog(store.open("atoll.db"))`. Entries are in order of time.

    Args:
        stream: Name of the log; several logs can share a store.
        clock: Time of entries without a time.
    """

    def __init__(self, run_store: store.Store, *, stream: str = STREAM, clock: Callable[[], datetime] = now) -> None:
        self._stream, self._clock = event_streams.EventStream(run_store.database, stream), clock

    def append(self, *entries: LogEntry) -> None:
        """Writes entries in one commit.

        Raises:
            SetupError: An entry is not JSON data.
            StoreFailed: The entries could not be written.
        """
        self._stream.append([self._make_row(entry) for entry in entries])

    def _make_row(self, entry: LogEntry) -> event_streams.StreamEvent:
        timestamp = to_utc(self._clock() if entry.timestamp.year == 1 else entry.timestamp)
        line = encode(msgspec.structs.replace(entry, timestamp=timestamp)).decode().rstrip("\n")
        return event_streams.StreamEvent(day_files.to_micros(timestamp), entry.entity, entry.decision_id, line)

    def read(self, since: datetime, until: datetime) -> Iterator[LogEntry]:
        """Yields the entries from `since` to `until`, both inclusive, in order of time."""
        return iter(self.open_reader(since, until))

    def open_reader(self, since: datetime, until: datetime, *, after: LogPosition = None) -> "SQLLogReader":
        span = day_files.to_micros(since), day_files.to_micros(until)
        return SQLLogReader(self._stream.iter_between(*span, after=tuple(after) if after else None), after)

    def find(self, entity: str, decision_id: str) -> LogEntry | None:
        """Returns the newest entry of a decision, by an index; None if it is missing."""
        rows = self._stream.list_by_entity(entity, 0, decision_id)
        return decode(rows[-1].data.encode()) if rows else None

    def query_entity(self, entity: str, since: datetime) -> Iterable[LogEntry]:
        """Returns the entries of one entity since a time, by an index."""
        return [decode(row.data.encode()) for row in self._stream.list_by_entity(entity, day_files.to_micros(since))]


class SQLLogReader:
    """Reader of log rows; a database has no invalid lines."""

    issues: Sequence[ReadIssue] = ()
    num_issues = 0
    num_in_progress = 0

    def __init__(self, rows: Iterator[event_streams.StreamRow], after: LogPosition) -> None:
        self._rows, self.position = rows, after

    def __iter__(self) -> Iterator[LogEntry]:
        for row in self._rows:
            self.position = [row.timestamp, row.number]
            yield decode(row.data.encode())
