"""What a ledger refuses.

SetupError
├── ReasonRequired      a change without a reason
├── InvalidKey          a key that is empty, too long or no text
└── InvalidValue        a value that is no plain JSON, or not what its key allows
NotFound
├── ParameterNotFound   there is no such key
└── VersionNotFound     the key has no such version, alias or moment
Conflict
├── ParameterLocked     the key is locked
└── VersionConflict     somebody else changed it first
StoreFailed
└── Interrupted         a transaction came to nothing: it may be tried again
AtollError
└── ChainBroken         the audit log is not what was written
"""

from atoll import errors


class ReasonRequired(errors.SetupError):
    """A change says why, always."""


class InvalidKey(errors.SetupError):
    """A key cannot be one."""


class InvalidValue(errors.SetupError):
    """A value cannot be stored, or its key allows another kind."""


class ParameterNotFound(errors.NotFound):
    """There is no such key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"There is no parameter {key}.")
        self.key = key


class VersionNotFound(errors.NotFound):
    """A key has no such version."""

    def __init__(self, key: str, version: object) -> None:
        super().__init__(f"There is no version {key}@{version}.")
        self.key, self.version = key, version


class ParameterLocked(errors.Conflict):
    """A key is locked; `unlock` it, or roll it back."""

    def __init__(self, key: str, author: str, reason: str) -> None:
        super().__init__(f"{key} is locked by {author}: {reason}")
        self.key, self.author, self.reason = key, author, reason


class VersionConflict(errors.Conflict):
    """The head of a key is another one than expected."""

    def __init__(self, key: str, expected: int, actual: int) -> None:
        super().__init__(f"{key} is at version {actual}, not {expected}.")
        self.key, self.expected, self.actual = key, expected, actual


class Interrupted(errors.StoreFailed):
    """Nothing of a transaction was committed, through no fault of its own: tried again, it may well pass."""


class ChainBroken(errors.AtollError):
    """The audit log is not what was written; the message says from where on."""

    def __init__(self, message: str, seq: int) -> None:
        super().__init__(message)
        self.seq = seq
