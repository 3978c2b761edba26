"""What the governed system refuses; all of it is under `atoll.errors.AtollError`.

The tree stands in `atoll.store.refusals`, since versions of every system refuse the same.
"""

from atoll.store.refusals import (
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
