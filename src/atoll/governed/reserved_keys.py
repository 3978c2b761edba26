"""Reserved key prefixes. Proposals, tools, skills and rollouts are parameters that only their own commands change."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from atoll import errors
from atoll.governed.parameters import ParameterStore

RESERVED_PREFIXES = (
    "access/",
    "control/",
    "nonces/",
    "playbook/",
    "proposals/",
    "reflections/",
    "rollout/",
    "run_labels/",
    "shadow/",
    "skills/",
    "tools/",
)


def check_not_reserved(key: str) -> None:
    """Raises for reserved keys. Setting one directly could, for example, reopen a rejected proposal.

    Raises:
        SetupError: The key is reserved.
    """
    if reserved_prefix := next((prefix for prefix in RESERVED_PREFIXES if key.strip().startswith(prefix)), None):
        raise errors.SetupError(
            f"Keys under {reserved_prefix} are reserved. Use the commands for {reserved_prefix.rstrip('/')} instead."
        )


class LoadResult[T](NamedTuple):
    """Loaded items, and an error message for each unreadable one."""

    items: Sequence[T]
    errors: Sequence[str]


class NamedItem(Protocol):
    """Item that is stored under its name."""

    @property
    def name(self) -> str: ...

    def to_json(self) -> Mapping[str, Any]:
        """Returns the item as JSON data."""


def load_all[T](
    store: ParameterStore, prefix: str, load: Callable[[str], T], error_type: type[errors.SetupError]
) -> LoadResult[T]:
    """Loads all items under a prefix. An unreadable item does not hide the others.

    Args:
        load: Loads one item by its name, which is the key without the prefix.
        error_type: Exception that `load` raises for an unreadable item.
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
    """Saves an item under its name and returns `KEY@VERSION`."""
    version = store.set(prefix + item.name, item.to_json(), reason, author=author, token=token)
    return f"{prefix}{item.name}@{version}"
