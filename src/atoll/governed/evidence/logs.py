"""One decision as it was logged, and how it is written on a line."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from atoll import errors


class LogEntry(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One decision.

    Attributes:
        timestamp: When, in UTC.
        decision_id: Which decision; feedback may name it.
        entity: Whom it concerns: the stream that feedback is looked up in.
        payload: What was decided, plain data.
        meta: Whatever else is known.
        action: What was chosen, where there was a choice.
        propensity: With which probability it was chosen: what off-policy estimates need.
        policy_version: Of the policy that chose.
    """

    timestamp: datetime
    decision_id: str = ""
    entity: str = ""
    payload: Any = None
    meta: dict[str, Any] | None = None
    action: str | None = None
    propensity: float | None = None
    policy_version: str | None = None


class _GoLogEntry(
    msgspec.Struct,
    rename={
        "timestamp": "Timestamp",
        "decision_id": "DecisionID",
        "entity": "Entity",
        "payload": "Payload",
        "meta": "Meta",
        "action": "Action",
        "propensity": "Propensity",
        "policy_version": "PolicyVersion",
    },
):
    """The same with the field names that Go gives structures without tags."""

    timestamp: datetime
    decision_id: str = ""
    entity: str = ""
    payload: Any = None
    meta: dict[str, Any] | None = None
    action: str | None = None
    propensity: float | None = None
    policy_version: str | None = None


_decoder, _go_decoder = msgspec.json.Decoder(LogEntry), msgspec.json.Decoder(_GoLogEntry)
_encoder = msgspec.json.Encoder()


def to_utc(timestamp: datetime) -> datetime:
    """Returns a moment in UTC; one without a zone is taken for UTC."""
    if timestamp.tzinfo is UTC:
        return timestamp
    return timestamp.replace(tzinfo=UTC) if timestamp.tzinfo is None else timestamp.astimezone(UTC)


def encode(entry: LogEntry) -> bytes:
    """Returns the line of an entry, with its end.

    Raises:
        SetupError: The entry holds what is no plain data.
    """
    try:
        return _encoder.encode(entry) + b"\n"
    except (TypeError, msgspec.MsgspecError, RecursionError) as error:
        raise errors.SetupError(f"A log entry must be plain data: {error}.") from error


def decode(line: bytes) -> LogEntry:
    """Reads a line in either casing.

    Raises:
        msgspec.MsgspecError: It is no entry. (`logs.files` turns that into a `ReadIssue`.)
        RecursionError: It is nested beyond all measure.
    """
    try:
        entry = _decoder.decode(line)
    except msgspec.ValidationError:
        try:
            entry = LogEntry(*msgspec.structs.astuple(_go_decoder.decode(line)))
        except msgspec.ValidationError:
            entry = _decoder.decode(line)  # its words are about the names that we document
    return entry if entry.timestamp.tzinfo is UTC else msgspec.structs.replace(entry, timestamp=to_utc(entry.timestamp))


def decode_lines(lines: bytes) -> list[LogEntry]:
    """Reads many lines of our own casing in one go, an order of magnitude faster than one by one.

    Raises:
        msgspec.MsgspecError: One of them is not so: `decode` finds out which.
    """
    return _decoder.decode_lines(lines)


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


class MemoryLog:
    """A log that ends with the process; for fixtures and tests. Keeps the order in which entries came."""

    def __init__(self, *entries: LogEntry) -> None:
        self._entries = list(entries)

    def append(self, entry: LogEntry) -> None:
        self._entries.append(entry)

    def read(self, since: datetime, until: datetime) -> Iterator[LogEntry]:
        start, end = to_utc(since), to_utc(until)
        return (entry for entry in list(self._entries) if start <= to_utc(entry.timestamp) <= end)


type IssuePolicy = Literal["raise", "skip", "quarantine"]

ISSUE_POLICIES = ("raise", "skip", "quarantine")
MAX_ISSUES = 100  # issues told one by one; the others are counted
QUARANTINE_FOLDER = "quarantine"


class InvalidLogLine(errors.AtollError):
    """A line of a log cannot be read, and the policy is to stop."""

    def __init__(self, issue: ReadIssue) -> None:
        super().__init__(
            f"Line {issue.line} of {issue.path} (byte {issue.offset}) is no entry: {issue.error}. "
            "Mend it, or read on with the policy skip or quarantine."
        )
        self.issue = issue


class ReadIssues:
    """Takes note of bad lines after a policy.

    `quarantine` copies each line into `quarantine/NAME.OFFSET` beside its file, once however often it is met.
    """

    def __init__(self, policy: IssuePolicy) -> None:
        if policy not in ISSUE_POLICIES:
            raise errors.SetupError(f"There is no policy {policy!r} for bad lines: choose {', '.join(ISSUE_POLICIES)}.")
        self._policy = policy
        self.first_issues: list[ReadIssue] = []
        self.count = 0

    def add(self, path: str, offset: int, line: bytes, error: Exception) -> None:
        """Notes a bad line.

        Raises:
            Unreadable: The policy is to stop.
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
    """Counts the lines before an offset: bad lines are rare, so nobody else need count."""
    with open(path, "rb") as file:
        line_number, num_remaining = 1, offset
        while num_remaining and (block := file.read(min(num_remaining, 1 << 20))):
            line_number, num_remaining = line_number + block.count(b"\n"), num_remaining - len(block)
    return line_number
