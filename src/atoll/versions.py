"""Versioned values: parameters, playbooks, prompts, tools and skills."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from atoll import errors


class Version(NamedTuple):
    """One value of a key; `n` counts from 1 without gaps."""

    key: str
    n: int
    value: str
    reason: str
    author: str

    @property
    def id(self) -> str:
        return f"{self.key}@{self.n}"


class Versions(Protocol):
    """A store of versioned values. Every change has a reason and an author; history is never deleted."""

    def get(self, key: str, n: int | None = None) -> Version:
        """Returns the current version of a key, or version n.

        Raises:
            NotFound: The key or the version does not exist.
        """

    def set(
        self, key: str, value: str, reason: str, author: str, *, expected: int | None = None, token: str | None = None
    ) -> Version:
        """Adds a version.

        Args:
            reason: Reason of the change; required.
            expected: The version that the change is based on; 0 if the key is new.
            token: Makes the call idempotent: the same token returns the version that it made.

        Raises:
            SetupError: The reason, the author or the key is empty.
            Conflict: The current version is not the expected one, or the key is locked.
        """

    def list(self, prefix: str = "") -> Sequence[str]:
        """Returns the keys that begin with a prefix, sorted."""

    def history(self, key: str) -> Sequence[Version]:
        """Returns all versions of a key, oldest first."""

    def rollback(self, key: str, n: int, reason: str, author: str) -> Version:
        """Restores an old value as a new version; works on a locked key too.

        Raises:
            NotFound: The version does not exist.
        """

    def lock(self, key: str, reason: str, author: str) -> None:
        """Refuses changes other than rollbacks until `unlock`.

        Raises:
            NotFound: The key does not exist.
        """

    def unlock(self, key: str, reason: str, author: str) -> None:
        """Allows changes again.

        Raises:
            NotFound: The key does not exist.
        """

    def watch(self, prefix: str = "", *, after: int | None = None, timeout: float | None = None) -> Iterator[Version]:
        """Yields new versions, from now on or after change number `after` of the store. Locks count as changes.

        Ends after `timeout` seconds without a change.
        """


def validate_change(key: str, reason: str, author: str) -> None:
    """Refuses a change without a key, a reason or an author.

    Raises:
        SetupError: One of them is empty.
    """
    for name, text in (("key", key), ("reason", reason), ("author", author)):
        if not text.strip():
            raise errors.SetupError(f"The {name} of this change is empty: give a key, a reason and an author.")
