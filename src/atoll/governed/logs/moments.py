"""Moments as whole numbers of microseconds, which compare and add without rounding."""

from datetime import UTC, datetime, timedelta

from atoll.governed.logs.entry import to_utc

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def to_micros(timestamp: datetime) -> int:
    return (to_utc(timestamp) - EPOCH) // MICROSECOND


def from_micros(micros: int) -> datetime:
    return EPOCH + timedelta(0, 0, micros)  # by place: half the time of by name
