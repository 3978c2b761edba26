"""What the governed system refuses; all of it is under `atoll.errors.AtollError`.

The tree stands in `atoll.store.refusals`, since versions of every system refuse the same.
"""

from threading import Event

from atoll import errors
from atoll.store.versions.errors import (
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
    """Somebody said stop before the work was done."""


def check_cancelled(stop: Event | None) -> None:
    """Looks before foreign code is called.

    Raises:
        Cancelled: It was said.
    """
    if stop is not None and stop.is_set():
        raise Cancelled("It was told to stop.")
