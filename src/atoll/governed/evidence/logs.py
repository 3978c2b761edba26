"""Logged decisions: entries, their JSON lines, the source interface, the log in memory, and invalid lines."""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from atoll import errors


class LogEntry(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One decision.

    Attributes:
        timestamp: Time in UTC.
        decision_id: Id that feedback can refer to.
        entity: Subject of the decision; feedback is looked up by it.
        payload: Decision as JSON data.
        meta: Further data.
        action: Chosen action.
        propensity: Probability of the chosen action; needed by off-policy estimates.
        policy_version: Version of the policy that decided.
    """

    timestamp: datetime
    decision_id: str = ""
    entity: str = ""
    payload: Any = None
    meta: dict[str, Any] | None = None
    action: str | None = None
    propensity: float | None = None
    policy_version: str | None = None


def to_utc(timestamp: datetime) -> datetime:
    """Returns a time in UTC. A time without a zone is taken as UTC."""
    if timestamp.tzinfo is UTC:
        return timestamp
    return timestamp.replace(tzinfo=UTC) if timestamp.tzinfo is None else timestamp.astimezone(UTC)


class LineDecoder[R: msgspec.Struct]:
    """Decodes JSON lines of records whose first field is `timestamp`, also with the field names of Go structs."""

    def __init__(self, record_type: type[R]) -> None:
        fields = [
            (field.name, field.type) if field.required else (field.name, field.type, field.default)
            for field in msgspec.structs.fields(record_type)
        ]
        go_names = {name: re.sub("Id$", "ID", name.title().replace("_", "")) for name, *_ in fields}  # without tags
        go_type = msgspec.defstruct(f"Go{record_type.__name__}", fields, rename=go_names)
        self._record_type = record_type
        self._decoder, self._go_decoder = msgspec.json.Decoder(record_type), msgspec.json.Decoder(go_type)
        self.decode_lines = self._decoder.decode_lines

    def decode(self, line: bytes) -> R:
        try:
            record = self._decoder.decode(line)
        except msgspec.ValidationError:
            try:
                record = self._record_type(*msgspec.structs.astuple(self._go_decoder.decode(line)))
            except msgspec.ValidationError:
                record = self._decoder.decode(line)  # raises an error with the documented field names
        timestamp: datetime = msgspec.structs.astuple(record)[0]
        return record if timestamp.tzinfo is UTC else msgspec.structs.replace(record, timestamp=to_utc(timestamp))


_encoder, _decoder = msgspec.json.Encoder(), LineDecoder(LogEntry)


def encode(entry: LogEntry) -> bytes:
    """Returns the line of an entry with its newline.

    Raises:
        SetupError: The entry is not JSON data.
    """
    try:
        return _encoder.encode(entry) + b"\n"
    except (TypeError, msgspec.MsgspecError, RecursionError) as error:
        raise errors.SetupError(f"A log entry must be JSON data: {error}.") from error


def decode(line: bytes) -> LogEntry:
    """Parses a line with field names in either case.

    Raises:
        msgspec.MsgspecError: The line is not an entry.
        RecursionError: The line is nested too deep.
    """
    return _decoder.decode(line)


def decode_lines(lines: bytes) -> list[LogEntry]:
    """Parses many lines with lower-case field names at once, ten times as fast as one by one.

    Raises:
        msgspec.MsgspecError: A line has another format; `decode` finds out which.
    """
    return _decoder.decode_lines(lines)


type LogPosition = Any  # JSON data with a meaning only for its source


class ReadIssue(NamedTuple):
    """Invalid line.

    Attributes:
        path: File of the line.
        line: Line number, from 1.
        offset: Start of the line in bytes.
        error: Description of the problem.
    """

    path: str
    line: int
    offset: int
    error: str


class LogSource(Protocol):
    """Source of logged decisions.

    Yields one by one, so a log need not fit into memory. The order is the same in every reading.
    """

    def read(self, since: datetime, until: datetime) -> Iterator[LogEntry]:
        """Yields the decisions from `since` to `until`, both inclusive."""


class LogReader(Protocol):
    """Iterator over entries that knows its position and the invalid lines."""

    def __iter__(self) -> Iterator[LogEntry]: ...

    @property
    def position(self) -> LogPosition:
        """Position after the last yielded entry."""

    @property
    def issues(self) -> Sequence[ReadIssue]:
        """First invalid lines."""

    @property
    def num_issues(self) -> int:
        """Number of invalid lines."""

    @property
    def num_in_progress(self) -> int:
        """Number of files whose last line is still being written."""


@runtime_checkable
class Resumable(Protocol):
    """Source that can continue at a position without reading earlier entries."""

    def open_reader(self, since: datetime, until: datetime, *, after: LogPosition = None) -> LogReader:
        """Opens a reader at the first entry or after a position."""


class MemoryLog:
    """Log in memory, for tests. Keeps the order in which entries were added."""

    def __init__(self, *entries: LogEntry) -> None:
        self._entries = list(entries)

    def append(self, entry: LogEntry) -> None:
        self._entries.append(entry)

    def read(self, since: datetime, until: datetime) -> Iterator[LogEntry]:
        start, end = to_utc(since), to_utc(until)
        return (entry for entry in list(self._entries) if start <= to_utc(entry.timestamp) <= end)


type IssuePolicy = Literal["raise", "skip", "quarantine"]

ISSUE_POLICIES = ("raise", "skip", "quarantine")
MAX_ISSUES = 100  # issues kept in full; further ones are counted
QUARANTINE_FOLDER = "quarantine"


class InvalidLogLine(errors.AtollError):
    """A line of a log is invalid, and the policy is `raise`."""

    def __init__(self, issue: ReadIssue) -> None:
        super().__init__(
            f"Line {issue.line} of {issue.path} (byte {issue.offset}) is not a log entry: {issue.error}. "
            "Fix it, or use the policy skip or quarantine."
        )
        self.issue = issue


class ReadIssues:
    """Handles invalid lines by a policy.

    `quarantine` copies each line once into `quarantine/NAME.OFFSET` next to its file.
    """

    def __init__(self, policy: IssuePolicy) -> None:
        if policy not in ISSUE_POLICIES:
            raise errors.SetupError(f"Policy {policy!r} for invalid lines is unknown. Use {', '.join(ISSUE_POLICIES)}.")
        self._policy = policy
        self.first_issues: list[ReadIssue] = []
        self.count = 0

    def add(self, path: str, offset: int, line: bytes, error: Exception) -> None:
        """Handles an invalid line.

        Raises:
            InvalidLogLine: The policy is `raise`.
        """
        issue = ReadIssue(path, _find_line_number(path, offset), offset, str(error))
        if self._policy == "raise":
            raise InvalidLogLine(issue) from error
        if self._policy == "quarantine":
            folder = os.path.join(os.path.dirname(path), QUARANTINE_FOLDER)
            os.makedirs(folder, exist_ok=True)
            copy_path = os.path.join(folder, f"{os.path.basename(path)}.{offset}")
            with contextlib.suppress(FileExistsError), open(copy_path, "xb") as file:
                file.write(line)
        self.count += 1
        if len(self.first_issues) < MAX_ISSUES:
            self.first_issues.append(issue)


def _find_line_number(path: str, offset: int) -> int:
    """Counts the lines before an offset. Invalid lines are rare, so readers do not count."""
    with open(path, "rb") as file:
        line_number, num_remaining = 1, offset
        while num_remaining and (block := file.read(min(num_remaining, 1 << 20))):
            line_number, num_remaining = line_number + block.count(b"\n"), num_remaining - len(block)
    return line_number
