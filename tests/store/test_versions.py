"""Versions: one history per key, whoever writes."""

import threading
from contextlib import ExitStack

import pytest

from atoll import errors, store
from atoll.store import MemoryVersions
from tests.store import workers


@pytest.fixture(params=["stored", "memory"])
def versions(request, opened):
    return opened.versions() if request.param == "stored" else MemoryVersions()


def test_versions_count_from_one_for_each_key(versions):
    made = [versions.set(key, key, "why", "me").id for key in ("a", "b", "a")]
    assert made == ["a@1", "b@1", "a@2"]


def test_a_version_is_found_by_number_or_as_the_head(versions):
    versions.set("a", "old", "why", "me")
    newest = versions.set("a", "new", "why not", "you")
    assert versions.get("a") == newest
    assert versions.get("a", 1).value == "old"


@pytest.mark.parametrize(("key", "n"), [("b", None), ("a", 2), ("a", 0), ("a", -1)])
def test_what_is_not_there_is_not_found(versions, key, n):
    versions.set("a", "value", "why", "me")
    with pytest.raises(errors.NotFound, match=f"no (version|parameter) {key}"):
        versions.get(key, n)


def test_compare_and_set_refuses_who_was_overtaken(versions):
    versions.set("a", "1", "why", "me", expected=0)
    with pytest.raises(errors.Conflict, match="a is at version 1, not 0"):
        versions.set("a", "2", "why", "me", expected=0)
    assert versions.set("a", "2", "why", "me", expected=1).n == 2


def test_the_same_token_again_changes_nothing(versions):
    first = versions.set("a", "1", "why", "me", expected=0, token="run/1.0")
    versions.set("a", "2", "why", "me")
    versions.lock("a", "frozen", "me")
    assert versions.set("a", "1", "why", "me", expected=0, token="run/1.0") == first
    assert len(versions.history("a")) == 2


def test_a_locked_key_refuses_changes_and_says_who_and_why(versions):
    versions.set("a", "1", "why", "me")
    versions.lock("a", "release week", "ann")
    with pytest.raises(errors.Conflict, match="locked by ann: release week"):
        versions.set("a", "2", "why", "me")
    versions.set("b", "free", "why", "me")
    versions.unlock("a", "over", "ann")
    assert versions.set("a", "2", "why", "me").n == 2


def test_a_rollback_is_a_new_version_and_passes_a_lock(versions):
    for value in ("good", "bad"):
        versions.set("a", value, "why", "me")
    versions.lock("a", "frozen", "ann")
    assert versions.rollback("a", 1, "it broke", "ann") == ("a", 3, "good", "it broke", "ann")
    assert versions.get("a").value == "good"


def test_a_rollback_to_nothing_is_not_found(versions):
    with pytest.raises(errors.NotFound):
        versions.rollback("a", 1, "why", "me")


@pytest.mark.parametrize("nothing", ["", "  "])
def test_a_change_says_what_why_and_who(versions, nothing):
    for arguments in ((nothing, "why", "me"), ("a", nothing, "me"), ("a", "why", nothing)):
        key, reason, author = arguments
        with pytest.raises(errors.SetupError):
            versions.set(key, "value", reason, author)
        with pytest.raises(errors.SetupError):
            versions.lock(*arguments)


def test_keys_are_listed_by_prefix_letter_by_letter(versions):
    for key in ("model/b", "model/a", "Model/c", "model%", "other", "model/a"):
        versions.set(key, "value", "why", "me")
    assert versions.list("model/") == ["model/a", "model/b"]
    assert versions.list("model%") == ["model%"]
    assert len(versions.list()) == 5


def test_history_is_complete_and_oldest_first(versions):
    made = [versions.set("a", str(n), f"reason {n}", "me") for n in range(5)]
    assert list(versions.history("a")) == made
    assert list(versions.history("nobody")) == []


@pytest.mark.parametrize("value", ["", "\ud800\x00", "a long text " * 5000])
def test_any_text_is_a_value(versions, value):
    assert versions.set("a", value, "why", "me").value == value
    assert versions.get("a").value == value


class TestWatch:
    def test_it_begins_when_it_is_called(self, versions):
        versions.set("a", "before", "why", "me")
        watch = versions.watch(timeout=0.05)
        versions.set("a", "after", "why", "me")
        assert [version.value for version in watch] == ["after"]

    def test_after_counts_changes_of_the_whole_store(self, versions):
        for key in ("a", "b", "a"):
            versions.set(key, "value", "why", "me")
        assert [version.id for version in versions.watch("a", after=0, timeout=0.0)] == ["a@1", "a@2"]
        assert [version.id for version in versions.watch(after=1, timeout=0.0)] == ["b@1", "a@2"]

    def test_it_wakes_for_a_change(self, versions):
        watch = versions.watch("a", timeout=10)
        timer = threading.Timer(0.1, versions.set, ("a", "value", "why", "me"))
        timer.start()
        assert next(watch).value == "value"
        timer.join()

    def test_it_sees_what_another_process_changes(self, opened, url):
        watch = opened.versions().watch("a", timeout=20)
        with workers.running(workers.set_version, url, "a") as (_, pipe):
            assert next(watch).value == "from elsewhere"
            assert pipe.recv() == 1


def count_together(url: str, times: int) -> None:
    with store.open(url) as opened:
        opened.versions().set("number", "0", "start", "test")
    with ExitStack() as stack:
        crowd = [stack.enter_context(workers.running(workers.count_up, url, "number", times)) for _ in range(8)]
        assert [pipe.recv() for _, pipe in crowd] == ["done"] * 8
    with store.open(url) as opened:
        history = opened.versions().history("number")
        assert [version.n for version in history] == list(range(1, 8 * times + 2))
        assert [int(version.value) for version in history] == list(range(8 * times + 1))


def test_eight_processes_count_together_without_a_gap(url):
    count_together(url, 20 if "://" in url else 100)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_eight_processes_count_to_8000_without_a_gap(postgres_url):
    count_together(postgres_url, 1000)
