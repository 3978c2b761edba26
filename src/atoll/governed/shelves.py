"""What was approved and is kept as parameters, all of one kind under one prefix."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from atoll import errors
from atoll.governed.parameters import ParameterStore


class LoadResult[T](NamedTuple):
    """What could be read, and a sentence for each that could not."""

    items: Sequence[T]
    errors: Sequence[str]


class NamedItem(Protocol):
    """Something that can be kept under its name."""

    @property
    def name(self) -> str: ...

    def to_json(self) -> Mapping[str, Any]:
        """Returns plain data that it can be made from again."""


def load_all[T](
    store: ParameterStore, prefix: str, load: Callable[[str], T], error_type: type[errors.SetupError]
) -> LoadResult[T]:
    """Returns all that is kept under a prefix; one that cannot be read hides no other.

    Args:
        store: Where they are kept.
        prefix: Of their keys.
        find: Reads one by its name, which is its key without the prefix.
        refused: What it raises for one that cannot be read.
    """
    items: list[T] = []
    messages: list[str] = []
    for key in store.list(prefix):
        try:
            items.append(load(key.removeprefix(prefix)))
        except error_type as error:
            messages.append(f"{key}: {error}")
    return LoadResult(items, messages)


def save_item(store: ParameterStore, prefix: str, item: NamedItem, reason: str, author: str, token: str) -> str:
    """Keeps something under its name and returns its key and version, as `KEY@VERSION`."""
    version = store.set(prefix + item.name, item.to_json(), reason, author=author, token=token)
    return f"{prefix}{item.name}@{version}"
