"""Feedback: measurements of decisions, their JSON lines, the channel interface, and the channel in memory."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

import msgspec

from atoll import errors
from atoll.governed.evidence.log_stores import now
from atoll.governed.evidence.logs import LineDecoder, to_utc


class EntityRequired(errors.SetupError):
    """Feedback was reported or queried without an entity."""


class MetricRequired(errors.SetupError):
    """Feedback was reported without a metric."""


class Feedback(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One measurement.

    Attributes:
        timestamp: Time of the record in UTC; set by the channel, not by the reporter.
        entity: Subject of the measurement.
        metric: Name of the metric.
        value: Finite number.
        confidence: 0 to 1.
        meta: Further data.
        decision_id: Decision that was measured, if known.
        observed_at: Time of the observation, for measurements that arrive late.
    """

    timestamp: datetime
    entity: str
    metric: str
    value: float
    confidence: float = 1.0
    meta: dict[str, Any] | None = None
    decision_id: str | None = None
    observed_at: datetime | None = None


_encoder, _decoder = msgspec.json.Encoder(), LineDecoder(Feedback)


def check_measurement(entity: str, metric: str, value: float, confidence: float) -> None:
    """Validates a measurement.

    Raises:
        EntityRequired: The entity is empty.
        MetricRequired: The metric is empty.
        SetupError: The value is not finite, or the confidence is not from 0 to 1.
    """
    check_entity(entity)
    if not metric:
        raise MetricRequired("Feedback needs a metric. Pass the name of the measured quantity.")
    if not math.isfinite(value):
        raise errors.SetupError(f"Metric {metric} of {entity} is {value}, not a finite number. Leave it out.")
    if not 0 <= confidence <= 1:
        raise errors.SetupError(f"confidence={confidence}: use a number from 0 (a guess) to 1 (certain).")


def check_entity(entity: str) -> None:
    if not entity:
        raise EntityRequired("Feedback needs an entity. Pass the name of the measured subject.")


def encode(record: Feedback) -> bytes:
    """Returns the line of a measurement with its newline.

    Raises:
        SetupError: `meta` is not JSON data.
    """
    try:
        return _encoder.encode(record) + b"\n"
    except (TypeError, msgspec.MsgspecError, RecursionError) as error:
        raise errors.SetupError(f"The meta of feedback must be JSON data: {error}.") from error


def decode(line: bytes) -> Feedback:
    """Parses a line with field names in either case.

    Raises:
        msgspec.MsgspecError: The line is not feedback.
        RecursionError: The line is nested too deep.
    """
    return _decoder.decode(line)


def decode_lines(lines: bytes) -> list[Feedback]:
    """Parses many lines with lower-case field names at once.

    Raises:
        msgspec.MsgspecError: A line has another format.
    """
    return _decoder.decode_lines(lines)


class FeedbackChannel(Protocol):
    """Stores and returns measurements."""

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
        """Records a measurement with the current time; `observed_at` is stored too.

        Raises:
            EntityRequired: The entity is empty.
            MetricRequired: The metric is empty.
            SetupError: The value is not finite, or `meta` is not JSON data.
        """

    def query(self, entity: str, since: datetime, metric: str = "") -> Sequence[Feedback]:
        """Returns the measurements of an entity since a time, oldest first; empty for an unknown entity.

        Args:
            metric: Name of one metric; empty: all metrics.

        Raises:
            EntityRequired: The entity is empty.
        """


@runtime_checkable
class ListsEntities(Protocol):
    """Channel that can list its entities."""

    def list_entities(self) -> Sequence[str]:
        """Returns all entities, sorted."""


class ReportingChannel(ABC):
    """Base of channels that record measurements.

    Args:
        clock: Time of a report.
    """

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock

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
        self._write(record)
        return record

    @abstractmethod
    def _write(self, record: Feedback) -> None:
        """Checks and stores a record."""


class MemoryFeedback(ReportingChannel):
    """Feedback channel in memory. `add` stores records with their own times, for tests and imports."""

    def __init__(self, *records: Feedback, clock: Callable[[], datetime] = now) -> None:
        super().__init__(clock)
        self._records: dict[str, list[Feedback]] = {}
        self.add(*records)

    def add(self, *records: Feedback) -> None:
        for record in records:
            check_measurement(record.entity, record.metric, record.value, record.confidence)
            self._records.setdefault(record.entity, []).append(record)

    def _write(self, record: Feedback) -> None:
        encode(record)  # rejects data that other channels cannot store
        self.add(record)

    def query(self, entity: str, since: datetime, metric: str = "") -> Sequence[Feedback]:
        check_entity(entity)
        recent = (record for record in self._records.get(entity, ()) if record.timestamp >= to_utc(since))
        return sorted(
            (record for record in recent if metric in ("", record.metric)), key=lambda record: record.timestamp
        )

    def list_entities(self) -> Sequence[str]:
        return sorted(self._records)
