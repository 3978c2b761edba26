"""Keys that are kept among the parameters and change by verbs of their own alone, each with its checks and risks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from atoll import errors
from atoll.governed.parameters import ParameterStore

RESERVED_PREFIXES = (
    "control/",
    "nonces/",
    "playbook/",
    "proposals/",
    "reflections/",
    "rollout/",
    "shadow/",
    "skills/",
    "tools/",
)


def check_not_reserved(key: str) -> None:
    """Refuses to change as a parameter what is none: a proposal that was rejected would be open again.

    Raises:
        SetupError: The key is reserved.
    """
    if reserved_prefix := next((prefix for prefix in RESERVED_PREFIXES if key.strip().startswith(prefix)), None):
        raise errors.SetupError(f"{reserved_prefix} is no parameter's: what is kept there has a way of its own.")


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
