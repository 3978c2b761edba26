"""What the parts of the contract share."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from atoll import governed


class ParameterStoreTests(ABC):
    """Says how to make the stores that are tested."""

    @abstractmethod
    def make(self) -> governed.ParameterStore:
        """Returns a new, empty store."""

    def reopen(self, store: governed.ParameterStore) -> governed.ParameterStore | None:
        """Returns what another process would see of a store; None, if nobody else can."""
        return None


def set_values(store: governed.ParameterStore, *values: Any, key: str = "key", **options: Any) -> int:
    """Sets values one after the other and returns the last version."""
    return [store.set(key, value, "because", author="ann", **options) for value in values][-1]


def collect_changes(watch: Iterator[governed.Change | governed.Gap]) -> list[governed.Change]:
    """Returns what a watch yields, which must have no gap."""
    items = list(watch)
    assert not [item for item in items if isinstance(item, governed.Gap)]
    return [item for item in items if isinstance(item, governed.Change)]


def get_change_fields(change: governed.Change) -> tuple[Any, ...]:
    """Returns what somebody meant by a change."""
    return change.kind, change.key, change.version, change.value, change.reason, change.author
