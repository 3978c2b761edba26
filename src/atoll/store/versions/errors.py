"""Errors of versioned values.

SetupError
├── ReasonRequired      the change has no reason
├── AccessDenied        the policy or the role of the principal does not allow the change
├── InvalidKey          the key is empty, too long or contains invalid characters
└── InvalidValue        the value is not plain JSON, or violates the rules of its key
NotFound
├── ParameterNotFound   the key does not exist
└── VersionNotFound     the key does not have this version or alias, or did not exist at this time
Conflict
├── ParameterLocked     the key is locked
└── VersionConflict     another change came first
StoreFailed
└── Interrupted         the transaction was rolled back and can be repeated
AtollError
└── ChainBroken         the change log was modified
"""

from atoll import errors


class ReasonRequired(errors.SetupError):
    """A change has no reason."""


class AccessDenied(errors.SetupError):
    """The policy of the store, or the role of the principal, does not allow a change."""


class InvalidKey(errors.SetupError):
    """A key is empty, too long or contains invalid characters."""


class InvalidValue(errors.SetupError):
    """A value cannot be stored, or violates the rules of its key."""


class ParameterNotFound(errors.NotFound):
    """A key does not exist."""

    def __init__(self, key: str) -> None:
        super().__init__(f"Parameter {key} not found. 'atoll params list' shows all.")
        self.key = key


class VersionNotFound(errors.NotFound):
    """A key does not have a version."""

    def __init__(self, key: str, version: object) -> None:
        super().__init__(f"Version {key}@{version} not found.")
        self.key, self.version = key, version


class ParameterLocked(errors.Conflict):
    """A key is locked; only `unlock` and rollback are possible."""

    def __init__(self, key: str, author: str, reason: str) -> None:
        super().__init__(f"{key} is locked by {author}: {reason}")
        self.key, self.author, self.reason = key, author, reason


class VersionConflict(errors.Conflict):
    """The newest version of a key is not the expected one."""

    def __init__(self, key: str, expected: int, actual: int) -> None:
        super().__init__(f"{key} is at version {actual}, not {expected}.")
        self.key, self.expected, self.actual = key, expected, actual


class Interrupted(errors.StoreFailed):
    """A transaction was rolled back because of a conflict or a lost connection; a retry may succeed."""


class ChainBroken(errors.AtollError):
    """The change log was modified; `seq` is the first wrong change."""

    def __init__(self, message: str, seq: int) -> None:
        super().__init__(message)
        self.seq = seq
