"""Values with a history: parameters, playbooks, prompts, tools and skills alike."""

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
    """A store of versioned values; every change has a reason and an author, none is ever lost."""

    def get(self, key: str, n: int | None = None) -> Version:
        """Returns the head of a key, or its n-th version.

        Raises:
            NotFound: There is no such key or version.
        """

    def set(
        self, key: str, value: str, reason: str, author: str, *, expected: int | None = None, token: str | None = None
    ) -> Version:
        """Makes a new head.

        Args:
            reason: Why; compulsory.
            expected: The version that the change is based on; 0 means that there is none yet.
            token: The same token again changes nothing and returns the version that it made.

        Raises:
            SetupError: The reason, the author or the key is empty.
            Conflict: The head is another one than expected, or the key is locked.
        """

    def list(self, prefix: str = "") -> Sequence[str]:
        """Returns the keys that begin with a prefix, sorted."""

    def history(self, key: str) -> Sequence[Version]:
        """Returns all versions of a key, oldest first."""

    def rollback(self, key: str, n: int, reason: str, author: str) -> Version:
        """Makes an old value the head again, as a new version; works on a locked key too.

        Raises:
            NotFound: There is no such version.
        """

    def lock(self, key: str, reason: str, author: str) -> None:
        """Refuses changes but for rollbacks until `unlock`.

        Raises:
            NotFound: There is no such key.
        """

    def unlock(self, key: str, reason: str, author: str) -> None:
        """Lets changes in again; what is not locked stays so.

        Raises:
            NotFound: There is no such key.
        """

    def watch(self, prefix: str = "", *, after: int | None = None, timeout: float | None = None) -> Iterator[Version]:
        """Yields new versions as they are made, from now on or `after` so many changes of the whole store.

        Locks count as changes.

        Ends when `timeout` seconds pass without a change.
        """


def validate_change(key: str, reason: str, author: str) -> None:
    """Refuses a change that does not say what, why and who.

    Raises:
        SetupError: One of them is empty.
    """
    for name, text in (("key", key), ("reason", reason), ("author", author)):
        if not text.strip():
            raise errors.SetupError(f"A version needs a {name}: say which, why and who.")
