"""Versions, stored and in memory."""

import threading
from contextlib import ExitStack

import pytest

from atoll import errors, store
from atoll.store import MemoryVersions
from tests.store import workers


@pytest.fixture(params=["stored", "memory"])
def versions(request, opened):
    return opened.versions() if request.param == "stored" else MemoryVersions()


def test_versions_are_numbered_per_key(versions):
    created = [versions.set(key, key, "why", "me").id for key in ("a", "b", "a")]
    assert created == ["a@1", "b@1", "a@2"]


def test_get_by_number_and_newest(versions):
    versions.set("a", "old", "why", "me")
    newest = versions.set("a", "new", "why not", "you")
    assert versions.get("a") == newest
    assert versions.get("a", 1).value == "old"


@pytest.mark.parametrize(("key", "n"), [("b", None), ("a", 2), ("a", 0), ("a", -1)])
def test_missing_version_is_not_found(versions, key, n):
    versions.set("a", "value", "why", "me")
    with pytest.raises(errors.NotFound, match=f"(Version|Parameter) {key}.* not found"):
        versions.get(key, n)


def test_compare_and_set_rejects_an_old_version(versions):
    versions.set("a", "1", "why", "me", expected=0)
    with pytest.raises(errors.Conflict, match="a is at version 1, not 0"):
        versions.set("a", "2", "why", "me", expected=0)
    assert versions.set("a", "2", "why", "me", expected=1).n == 2


def test_repeated_token_changes_nothing(versions):
    first = versions.set("a", "1", "why", "me", expected=0, token="run/1.0")
    versions.set("a", "2", "why", "me")
    versions.lock("a", "frozen", "me")
    assert versions.set("a", "1", "why", "me", expected=0, token="run/1.0") == first
    assert len(versions.history("a")) == 2


def test_locked_key_rejects_changes(versions):
    versions.set("a", "1", "why", "me")
    versions.lock("a", "release week", "ann")
    with pytest.raises(errors.Conflict, match="locked by ann: release week"):
        versions.set("a", "2", "why", "me")
    versions.set("b", "free", "why", "me")
    versions.unlock("a", "over", "ann")
    assert versions.set("a", "2", "why", "me").n == 2


def test_rollback_is_a_new_version_and_ignores_locks(versions):
    for value in ("good", "bad"):
        versions.set("a", value, "why", "me")
    versions.lock("a", "frozen", "ann")
    assert versions.rollback("a", 1, "it broke", "ann") == ("a", 3, "good", "it broke", "ann")
    assert versions.get("a").value == "good"


def test_rollback_to_missing_version_is_not_found(versions):
    with pytest.raises(errors.NotFound):
        versions.rollback("a", 1, "why", "me")


@pytest.mark.parametrize("nothing", ["", "  "])
def test_change_needs_key_reason_and_author(versions, nothing):
    for arguments in ((nothing, "why", "me"), ("a", nothing, "me"), ("a", "why", nothing)):
        key, reason, author = arguments
        with pytest.raises(errors.SetupError):
            versions.set(key, "value", reason, author)
        with pytest.raises(errors.SetupError):
            versions.lock(*arguments)


def test_list_keys_by_prefix(versions):
    for key in ("model/b", "model/a", "Model/c", "model%", "other", "model/a"):
        versions.set(key, "value", "why", "me")
    assert versions.list("model/") == ["model/a", "model/b"]
    assert versions.list("model%") == ["model%"]
    assert len(versions.list()) == 5


def test_history_is_complete_and_oldest_first(versions):
    created = [versions.set("a", str(n), f"reason {n}", "me") for n in range(5)]
    assert list(versions.history("a")) == created
    assert list(versions.history("missing")) == []


@pytest.mark.parametrize("value", ["", "\ud800\x00", "a long text " * 5000])
def test_any_text_is_a_value(versions, value):
    assert versions.set("a", value, "why", "me").value == value
    assert versions.get("a").value == value


class TestWatch:
    def test_watch_starts_with_the_call(self, versions):
        versions.set("a", "before", "why", "me")
        watch = versions.watch(timeout=0.05)
        versions.set("a", "after", "why", "me")
        assert [version.value for version in watch] == ["after"]

    def test_watch_after_counts_all_changes(self, versions):
        for key in ("a", "b", "a"):
            versions.set(key, "value", "why", "me")
        assert [version.id for version in versions.watch("a", after=0, timeout=0.0)] == ["a@1", "a@2"]
        assert [version.id for version in versions.watch(after=1, timeout=0.0)] == ["b@1", "a@2"]

    def test_watch_wakes_for_a_change(self, versions):
        watch = versions.watch("a", timeout=10)
        timer = threading.Timer(0.1, versions.set, ("a", "value", "why", "me"))
        timer.start()
        assert next(watch).value == "value"
        timer.join()

    def test_watch_another_process(self, opened, url):
        watch = opened.versions().watch("a", timeout=20)
        with workers.running(workers.set_version, url, "a") as (_, pipe):
            assert next(watch).value == "from elsewhere"
            assert pipe.recv() == 1


def count_together(url: str, times: int) -> None:
    with store.open(url) as opened:
        opened.versions().set("number", "0", "start", "test")
    with ExitStack() as stack:
        processes = [stack.enter_context(workers.running(workers.count_up, url, "number", times)) for _ in range(8)]
        assert [pipe.recv() for _, pipe in processes] == ["done"] * 8
    with store.open(url) as opened:
        history = opened.versions().history("number")
        assert [version.n for version in history] == list(range(1, 8 * times + 2))
        assert [int(version.value) for version in history] == list(range(8 * times + 1))


def test_eight_processes_count_without_a_gap(url):
    count_together(url, 20 if "://" in url else 100)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_eight_processes_count_to_8000_without_a_gap(postgres_url):
    count_together(postgres_url, 1000)
