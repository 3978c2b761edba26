"""What became of a decision: one measured number, and how it is written on a line."""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol, runtime_checkable

import msgspec

from atoll import errors
from atoll.governed.evidence.log_stores import now
from atoll.governed.evidence.logs import to_utc


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


class FeedbackChannel(Protocol):
    """Takes measurements in and gives them back: push and pull over the same data."""

    def report(
        self,
        entity: str,
        metric: str,
        value: float,
        confidence: float = 1.0,
        meta: Mapping[str, Any] | None = None,
        *,
        decision_id: str | None = None,
        observed_at: datetime | None = None,
    ) -> Feedback:
        """Takes in a measurement, stamped now; `observed_at` says when it happened, and is kept beside the stamp.

        Raises:
            EntityRequired: The entity is empty.
            MetricRequired: The metric is empty.
            SetupError: The value is no finite number, or the meta no plain data.
        """

    def query(self, entity: str, since: datetime, metric: str = "") -> Sequence[Feedback]:
        """Returns what was recorded of an entity from a moment on, oldest first; an unknown entity has none.

        Args:
            metric: Exactly this one; empty means all.

        Raises:
            EntityRequired: The entity is empty.
        """


@runtime_checkable
class ListsEntities(Protocol):
    """A channel that knows whose feedback it has."""

    def list_entities(self) -> Sequence[str]:
        """Returns all entities, sorted."""


class MemoryFeedback:
    """A channel that ends with the process. Also holds what `add` brings with its own times: fixtures, imports."""

    def __init__(self, *records: Feedback, clock: Callable[[], datetime] = now) -> None:
        self._clock = clock
        self._records: dict[str, list[Feedback]] = {}
        self.add(*records)

    def add(self, *records: Feedback) -> None:
        for record in records:
            check_measurement(record.entity, record.metric, record.value, record.confidence)
            self._records.setdefault(record.entity, []).append(record)

    def report(
        self,
        entity: str,
        metric: str,
        value: float,
        confidence: float = 1.0,
        meta: Mapping[str, Any] | None = None,
        *,
        decision_id: str | None = None,
        observed_at: datetime | None = None,
    ) -> Feedback:
        meta_copy = dict(meta) if meta else None
        record = Feedback(to_utc(self._clock()), entity, metric, value, confidence, meta_copy, decision_id, observed_at)
        encode(record)  # refuses what no other channel could keep
        self.add(record)
        return record

    def query(self, entity: str, since: datetime, metric: str = "") -> Sequence[Feedback]:
        check_entity(entity)
        recent = (record for record in self._records.get(entity, ()) if record.timestamp >= to_utc(since))
        return sorted(
            (record for record in recent if metric in ("", record.metric)), key=lambda record: record.timestamp
        )

    def list_entities(self) -> Sequence[str]:
        return sorted(self._records)
