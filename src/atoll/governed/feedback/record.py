"""What became of a decision: one measured number, and how it is written on a line."""

import math
from datetime import UTC, datetime
from typing import Any

import msgspec

from atoll import errors
from atoll.governed.logs.entry import to_utc


class EntityRequired(errors.SetupError):
    """Feedback was reported or asked for without saying whose."""


class MetricRequired(errors.SetupError):
    """Feedback was reported without saying what was measured."""


class Feedback(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One measurement.

    Attributes:
        timestamp: When it was recorded, in UTC: stamped by the channel, so nobody can say otherwise.
        entity: Whom it concerns.
        metric: What was measured.
        value: A finite number.
        confidence: How sure it is, from 0 to 1.
        meta: Whatever else is known.
        decision_id: Which decision it is about, where somebody knows.
        observed_at: When it happened, as told by whoever reported it; for figures that come late.
    """

    timestamp: datetime
    entity: str
    metric: str
    value: float
    confidence: float = 1.0
    meta: dict[str, Any] | None = None
    decision_id: str | None = None
    observed_at: datetime | None = None


class _GoFeedback(
    msgspec.Struct,
    rename={
        "timestamp": "Timestamp",
        "entity": "Entity",
        "metric": "Metric",
        "value": "Value",
        "confidence": "Confidence",
        "meta": "Meta",
        "decision_id": "DecisionID",
        "observed_at": "ObservedAt",
    },
):
    """The same with the field names that Go gives structures without tags."""

    timestamp: datetime
    entity: str
    metric: str
    value: float
    confidence: float = 1.0
    meta: dict[str, Any] | None = None
    decision_id: str | None = None
    observed_at: datetime | None = None


_decoder, _go_decoder = msgspec.json.Decoder(Feedback), msgspec.json.Decoder(_GoFeedback)
_encoder = msgspec.json.Encoder()


def check_measurement(entity: str, metric: str, value: float, confidence: float) -> None:
    """Refuses what is no measurement.

    Raises:
        EntityRequired: Nobody is named.
        MetricRequired: Nothing is named.
        SetupError: The value is no finite number, or the confidence not from 0 to 1.
    """
    check_entity(entity)
    if not metric:
        raise MetricRequired("Feedback needs a metric: say what was measured.")
    if not math.isfinite(value):
        raise errors.SetupError(f"The {metric} of {entity} is {value}, which is no finite number: leave it out.")
    if not 0 <= confidence <= 1:
        raise errors.SetupError(f"confidence={confidence}: give a number from 0 (a guess) to 1 (certain).")


def check_entity(entity: str) -> None:
    if not entity:
        raise EntityRequired("Feedback needs an entity: say whom it concerns.")


def encode(record: Feedback) -> bytes:
    """Returns the line of a measurement, with its end.

    Raises:
        SetupError: Its meta holds what is no plain data.
    """
    try:
        return _encoder.encode(record) + b"\n"
    except (TypeError, msgspec.MsgspecError, RecursionError) as error:
        raise errors.SetupError(f"The meta of feedback must be plain data: {error}.") from error


def decode(line: bytes) -> Feedback:
    """Reads a line in either casing.

    Raises:
        msgspec.MsgspecError: It is no feedback.
        RecursionError: It is nested beyond all measure.
    """
    try:
        record = _decoder.decode(line)
    except msgspec.ValidationError:
        try:
            record = Feedback(*msgspec.structs.astuple(_go_decoder.decode(line)))
        except msgspec.ValidationError:
            record = _decoder.decode(line)  # its words are about the names that we document
    if record.timestamp.tzinfo is UTC:
        return record
    return msgspec.structs.replace(record, timestamp=to_utc(record.timestamp))


def decode_lines(lines: bytes) -> list[Feedback]:
    """Reads many lines of our own casing in one go.

    Raises:
        msgspec.MsgspecError: One of them is not so.
    """
    return _decoder.decode_lines(lines)
