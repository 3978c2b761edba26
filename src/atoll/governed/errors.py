"""Errors of the governed system, all derived from `atoll.errors.AtollError`.

Errors of versioned keys come from `atoll.store.versions.errors`, which all systems share.
"""

from threading import Event

from atoll import errors
from atoll.store.versions.errors import (
    AccessDenied,
    ChainBroken,
    InvalidKey,
    InvalidValue,
    ParameterLocked,
    ParameterNotFound,
    ReasonRequired,
    VersionConflict,
    VersionNotFound,
)

__all__ = [
    "AccessDenied",
    "ChainBroken",
    "InvalidKey",
    "InvalidValue",
    "ParameterLocked",
    "ParameterNotFound",
    "ReasonRequired",
    "VersionConflict",
    "VersionNotFound",
]


class Cancelled(errors.AtollError):
    """The work was cancelled by its stop event."""


def check_cancelled(stop: Event | None) -> None:
    """Raises if the stop event is set.

    Raises:
        Cancelled: The event is set.
    """
    if stop is not None and stop.is_set():
        raise Cancelled("Cancelled by the stop event.")
