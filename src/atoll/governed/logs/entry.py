"""One decision as it was logged, and how it is written on a line."""

from datetime import UTC, datetime
from typing import Any

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
