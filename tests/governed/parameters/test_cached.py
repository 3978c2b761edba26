"""Reads from memory."""

import time

import pytest

from atoll import governed
from atoll.governed import errors
from tests.governed.parameters import workers


@pytest.fixture
def store(tmp_path):
    with governed.StoredParameters(tmp_path / "parameters.db") as made:
        made.set("key", 1, "because", author="ann")
        yield made


def test_ones_own_changes_are_seen_at_once(store):
    with governed.CachedParameters(store) as cached:
        for value in range(20):
            cached.set("key", value, "because", author="ann")
            assert cached["key"] == value


def test_changes_of_others_are_seen_soon(store):
    with governed.CachedParameters(store) as cached, workers.opened(store.store.database.name) as other:
        assert cached.get("key") == (1, 1)
        other.set("key", 2, "because", author="bob")
        deadline = time.monotonic() + 60
        while cached.get("key") != (2, 2):
            assert time.monotonic() < deadline
            time.sleep(0.002)


def test_an_alias_that_moves_is_seen(store):
    with governed.CachedParameters(store) as cached:
        store.set("key", 2, "because", author="ann")
        store.alias("key", "production", 1, "tried", author="ann")
        assert cached.get("key@production") == (1, 1)
        store.alias("key", "production", 2, "better", author="ann")
        deadline = time.monotonic() + 60
        while cached.get("key@production") != (2, 2):
            assert time.monotonic() < deadline
            time.sleep(0.002)


def test_what_was_read_cannot_be_changed_from_outside(store):
    with governed.CachedParameters(store) as cached:
        cached.set("list", [1], "because", author="ann")
        cached["list"].append(2)
        assert cached["list"] == [1]


def test_what_is_not_there_is_not_found(store):
    with governed.CachedParameters(store) as cached:
        with pytest.raises(errors.ParameterNotFound):
            cached.get("nobody")
        with pytest.raises(errors.VersionNotFound):
            cached.get("key", as_of=0)


def test_after_its_end_it_asks_the_store(store):
    with governed.CachedParameters(store) as cached:
        cached.get("key")
    store.set("key", 2, "because", author="ann")
    assert cached.get("key") == (2, 2)
