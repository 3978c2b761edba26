"""CachedParameters: reads from memory, invalidation."""

import time

import pytest

from atoll import governed
from atoll.governed import errors
from tests.governed.parameters import workers


@pytest.fixture
def store(tmp_path):
    with governed.StoredParameters(tmp_path / "parameters.db") as parameters:
        parameters.set("key", 1, "because", author="ann")
        yield parameters


def test_cache_sees_own_changes_at_once(store):
    with governed.CachedParameters(store) as cached:
        for value in range(20):
            cached.set("key", value, "because", author="ann")
            assert cached["key"] == value


def test_cache_sees_changes_of_others_soon(store):
    with governed.CachedParameters(store) as cached, workers.opened(store.store.database.name) as other:
        assert cached.get("key") == (1, 1)
        other.set("key", 2, "because", author="bob")
        deadline = time.monotonic() + 60
        while cached.get("key") != (2, 2):
            assert time.monotonic() < deadline
            time.sleep(0.002)


def test_cache_sees_moved_alias(store):
    with governed.CachedParameters(store) as cached:
        store.set("key", 2, "because", author="ann")
        store.alias("key", "production", 1, "tried", author="ann")
        assert cached.get("key@production") == (1, 1)
        store.alias("key", "production", 2, "better", author="ann")
        deadline = time.monotonic() + 60
        while cached.get("key@production") != (2, 2):
            assert time.monotonic() < deadline
            time.sleep(0.002)


def test_cached_values_cannot_be_modified_by_callers(store):
    with governed.CachedParameters(store) as cached:
        cached.set("list", [1], "because", author="ann")
        cached["list"].append(2)
        assert cached["list"] == [1]


def test_cache_raises_for_missing_key(store):
    with governed.CachedParameters(store) as cached:
        with pytest.raises(errors.ParameterNotFound):
            cached.get("unknown")
        with pytest.raises(errors.VersionNotFound):
            cached.get("key", as_of=0)


def test_closed_cache_reads_the_store(store):
    with governed.CachedParameters(store) as cached:
        cached.get("key")
    store.set("key", 2, "because", author="ann")
    assert cached.get("key") == (2, 2)
