"""What the parts of the contract share."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from atoll import governed


class Base(ABC):
    """Says how to make the stores that are tested."""

    @abstractmethod
    def make(self) -> governed.ParameterStore:
        """Returns a new, empty store."""

    def reopen(self, store: governed.ParameterStore) -> governed.ParameterStore | None:
        """Returns what another process would see of a store; None, if nobody else can."""
        return None


def put(store: governed.ParameterStore, *values: Any, key: str = "key", **rest: Any) -> int:
    """Sets values one after the other and returns the last version."""
    return [store.set(key, value, "because", author="ann", **rest) for value in values][-1]


def seen(watch: Iterator[governed.Change | governed.Gap]) -> list[governed.Change]:
    """Returns what a watch yields, which must have no gap."""
    found = list(watch)
    assert not [each for each in found if isinstance(each, governed.Gap)]
    return [each for each in found if isinstance(each, governed.Change)]


def told(change: governed.Change) -> tuple[Any, ...]:
    """Returns what somebody meant by a change."""
    return change.kind, change.key, change.version, change.value, change.reason, change.author
