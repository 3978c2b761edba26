"""The contract of parameters notices who breaks it."""

from collections.abc import Iterator
from typing import Any

import pytest

from atoll import governed, testing
from atoll.testing.parameters import machine


class Overwriting(governed.MemoryParameters):
    """Ignores what a change was based on."""

    def set(self, *args: Any, expected_version: int | None = None, **rest: Any) -> int:
        return super().set(*args, **rest)


class Forgetful(governed.MemoryParameters):
    """Lets a slow watcher miss changes without a word."""

    def watch(self, *args: Any, **rest: Any) -> Iterator[governed.Change | governed.Gap]:
        return (each for each in super().watch(*args, **rest) if isinstance(each, governed.Change))


class Lenient(governed.MemoryParameters):
    """Makes up a reason."""

    def lock(self, key: str, reason: str, *, author: str | None = None) -> None:
        super().lock(key, reason.strip() or "no reason", author=author)


class Sharing(governed.MemoryParameters):
    """Hands out what it keeps."""

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
def test_the_contract_notices_who_breaks_it(kind, test):
    class Suite(testing.ParameterStoreContract):
        def make(self) -> governed.ParameterStore:
            made: governed.ParameterStore = kind()
            return made

    with pytest.raises((AssertionError, ValueError)):
        getattr(Suite(), test)()


def test_random_changes_notice_who_breaks_the_contract():
    with pytest.raises(AssertionError):
        machine.run(Overwriting, max_examples=40, steps=20, shrinks=False)


def test_the_contract_has_more_than_60_cases_and_each_says_what_it_is_about():
    suite = testing.ParameterStoreContract
    tests = [getattr(suite, name) for name in dir(suite) if name.startswith("test_")]
    assert len(tests) >= 60
    assert all(test.__doc__ and test.__name__.count("_") >= 3 for test in tests)
