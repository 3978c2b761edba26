"""The contract of parameter stores detects violations."""

from collections.abc import Iterator
from typing import Any

import pytest

from atoll import governed, testing
from atoll.testing.parameters import machine


class Overwriting(governed.MemoryParameters):
    """Ignores the expected version."""

    def set(self, *args: Any, expected_version: int | None = None, **rest: Any) -> int:
        return super().set(*args, **rest)


class Forgetful(governed.MemoryParameters):
    """Hides gaps from slow watchers."""

    def watch(self, *args: Any, **rest: Any) -> Iterator[governed.Change | governed.Gap]:
        return (change for change in super().watch(*args, **rest) if isinstance(change, governed.Change))


class Lenient(governed.MemoryParameters):
    """Invents a missing reason."""

    def lock(self, key: str, reason: str, *, author: str | None = None) -> None:
        super().lock(key, reason.strip() or "no reason", author=author)


class Sharing(governed.MemoryParameters):
    """Returns its own values instead of copies."""

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[str, governed.Value] = {}

    def get(self, key: str, **rest: Any) -> governed.Value:
        return self._held.setdefault(key, super().get(key, **rest))


@pytest.mark.parametrize(
    ("kind", "test"),
    [
        (Overwriting, "test_unexpected_version_is_a_conflict"),
        (Forgetful, "test_slow_watcher_gets_gap"),
        (Lenient, "test_change_without_reason_is_refused"),
        (Sharing, "test_values_are_copied"),
    ],
)
def test_contract_detects_violation(kind, test):
    class Suite(testing.ParameterStoreContract):
        def make(self) -> governed.ParameterStore:
            store: governed.ParameterStore = kind()
            return store

    with pytest.raises((AssertionError, ValueError)):
        getattr(Suite(), test)()


def test_random_changes_detect_violation():
    with pytest.raises(AssertionError):
        machine.run(Overwriting, max_examples=40, steps=20, shrinks=False)


def test_contract_has_at_least_60_documented_tests():
    suite = testing.ParameterStoreContract
    tests = [getattr(suite, name) for name in dir(suite) if name.startswith("test_")]
    assert len(tests) >= 60
    assert all(test.__doc__ and test.__name__.count("_") >= 3 for test in tests)
