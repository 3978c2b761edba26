"""Base class and helpers of the parameter store tests."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from atoll import governed


class ParameterStoreTests(ABC):
    """Base class with the methods that a subclass implements."""

    @abstractmethod
    def make(self) -> governed.ParameterStore:
        """Returns a new, empty store."""

    def reopen(self, store: governed.ParameterStore) -> governed.ParameterStore | None:
        """Returns the store as another process would open it, or None if that is not possible."""
        return None


def set_values(store: governed.ParameterStore, *values: Any, key: str = "key", **options: Any) -> int:
    """Sets the values in order and returns the last version."""
    return [store.set(key, value, "because", author="ann", **options) for value in values][-1]


def collect_changes(watch: Iterator[governed.Change | governed.Gap]) -> list[governed.Change]:
    """Returns the changes of a watch; fails on a gap."""
    items = list(watch)
    assert not [item for item in items if isinstance(item, governed.Gap)]
    return [item for item in items if isinstance(item, governed.Change)]


def get_change_fields(change: governed.Change) -> tuple[Any, ...]:
    """Returns the fields of a change that its author chose."""
    return change.kind, change.key, change.version, change.value, change.reason, change.author
