"""Test suite for version stores."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from threading import Thread

from atoll import errors
from atoll.testing import fakes
from atoll.versions import Version, Versions

_WATCH_TIMEOUT_SECONDS = 5.0


class VersionsSuite(ABC):
    """Tests for a version store. Subclass it and implement `make`."""

    @abstractmethod
    def make(self) -> Versions:
        """Returns a new, empty store."""

    def test_unknown_key_or_version_is_not_found(self) -> None:
        """`get` and `rollback` raise `NotFound`; the history of an unknown key is empty."""
        store = self.make()
        with fakes.raises(errors.NotFound):
            store.get("key")
        set_value(store, "one")
        for number in (0, 2, -1):
            with fakes.raises(errors.NotFound):
                store.get("key", number)
            with fakes.raises(errors.NotFound):
                store.rollback("key", number, "reason", "ann")
        with fakes.raises(errors.NotFound):
            store.rollback("other", 1, "reason", "ann")
        assert len(store.history("other")) == 0
        assert list(store.list()) == ["key"]

    def test_versions_count_from_one_per_key(self) -> None:
        """Each key has its own numbers; `get` returns the newest version or version n."""
        store = self.make()
        assert [set_value(store, text).n for text in ("one", "two", "three")] == [1, 2, 3]
        assert set_value(store, "alone", key="other").n == 1
        assert store.get("key") == Version("key", 3, "three", "because", "ann")
        assert store.get("key", 2) == Version("key", 2, "two", "because", "ann")
        assert store.get("key").id == "key@3"

    def test_value_round_trips(self) -> None:
        """Values are texts of any length and characters, also empty."""
        store = self.make()
        for text in ("", " ", '{"a": [1]}', "åß∂ 日本語 🏝\n\t\x00", "x" * 100_000):
            set_value(store, text)
            assert store.get("key").value == text

    def test_change_without_key_reason_or_author_is_refused(self) -> None:
        """The change raises `SetupError` and stores nothing."""
        store = self.make()
        set_value(store, "one")
        for key, reason, author in (("", "why", "ann"), ("key", " ", "ann"), ("key", "why", "")):
            with fakes.raises(errors.SetupError):
                store.set(key, "value", reason, author)
            with fakes.raises(errors.SetupError):
                store.rollback(key, 1, reason, author)
        assert len(store.history("key")) == 1

    def test_unexpected_version_is_a_conflict(self) -> None:
        """`expected` must be the newest number, 0 for a new key; otherwise nothing changes."""
        store = self.make()
        with fakes.raises(errors.Conflict):
            set_value(store, "one", expected=1)
        assert set_value(store, "one", expected=0).n == 1
        for expected in (0, 2):
            with fakes.raises(errors.Conflict):
                set_value(store, "two", expected=expected)
        assert set_value(store, "two", expected=1).n == 2
        assert store.get("key").value == "two"

    def test_one_of_many_concurrent_changes_wins(self) -> None:
        """Compare-and-set works between threads."""
        store = self.make()
        set_value(store, "one")

        def attempt(index: int) -> int:
            try:
                return set_value(store, f"by {index}", expected=1).n
            except errors.Conflict:
                return 0

        assert sorted(fakes.run_concurrently(attempt)) == [0] * 7 + [2]
        assert len(store.history("key")) == 2

    def test_concurrent_changes_without_expectation_all_succeed(self) -> None:
        """Without `expected` every change succeeds, and the numbers have no gaps."""
        store = self.make()
        versions = fakes.run_concurrently(lambda index: set_value(store, f"by {index}"))
        assert sorted(version.n for version in versions) == list(range(1, 9))
        assert set(store.history("key")) == set(versions)

    def test_repeated_token_changes_nothing(self) -> None:
        """It returns the first result, even after other changes or a lock, so an iteration may run twice."""
        store = self.make()
        first_version = set_value(store, "one", expected=0, token="run/1.0")
        assert set_value(store, "one", expected=0, token="run/1.0") == first_version
        set_value(store, "two")
        assert set_value(store, "one", expected=0, token="run/1.0") == first_version
        store.lock("key", "holidays", "bob")
        assert set_value(store, "one", expected=0, token="run/1.0") == first_version
        assert [version.value for version in store.history("key")] == ["one", "two"]

    def test_concurrent_token_creates_one_version(self) -> None:
        """Tokens work between threads."""
        store = self.make()
        versions = fakes.run_concurrently(lambda _: set_value(store, "one", token="run/1.0"))
        assert set(versions) == {store.get("key", 1)}
        assert len(store.history("key")) == 1

    def test_history_lists_versions_oldest_first(self) -> None:
        """No version is lost; rollbacks are included."""
        store = self.make()
        for text in ("one", "two"):
            set_value(store, text)
        store.rollback("key", 1, "two was worse", "bob")
        assert [(version.n, version.value, version.reason, version.author) for version in store.history("key")] == [
            (1, "one", "because", "ann"),
            (2, "two", "because", "ann"),
            (3, "one", "two was worse", "bob"),
        ]

    def test_rollback_creates_new_version_with_old_value(self) -> None:
        """The version is new, so a change that expects the old one is a conflict."""
        store = self.make()
        for text in ("one", "two"):
            set_value(store, text)
        assert store.rollback("key", 1, "two was worse", "bob") == store.get("key")
        assert (store.get("key").n, store.get("key").value) == (3, "one")
        with fakes.raises(errors.Conflict):
            set_value(store, "based on two", expected=2)

    def test_locked_key_allows_only_rollback(self) -> None:
        """`set` is a conflict until `unlock`; rollbacks and other keys are not affected."""
        store = self.make()
        set_value(store, "one")
        store.lock("key", "holidays", "bob")
        with fakes.raises(errors.Conflict):
            set_value(store, "two")
        set_value(store, "free", key="key2")
        assert store.rollback("key", 1, "to be sure", "bob").n == 2
        store.unlock("key", "back at work", "bob")
        assert set_value(store, "two").n == 3

    def test_lock_error_has_author_and_reason(self) -> None:
        """The error names the author and the reason of the lock."""
        store = self.make()
        set_value(store, "one")
        store.lock("key", "holidays", "bob")
        with fakes.raises(errors.Conflict) as caught:
            set_value(store, "two")
        assert "bob" in str(caught[0])
        assert "holidays" in str(caught[0])
        for change in (store.lock, store.unlock):
            with fakes.raises(errors.SetupError):
                change("key", "", "bob")

    def test_lock_and_unlock_of_unknown_key_fail(self) -> None:
        """Both raise `NotFound`. Unlocking an unlocked key changes nothing."""
        store = self.make()
        for change in (store.lock, store.unlock):
            with fakes.raises(errors.NotFound):
                change("key", "because", "ann")
        set_value(store, "one")
        store.unlock("key", "to be sure", "ann")
        assert set_value(store, "two").n == 2

    def test_locks_are_changes_but_not_versions(self) -> None:
        """A watch skips them and continues with later versions."""
        store = self.make()
        set_value(store, "one")
        store.lock("key", "holidays", "bob")
        store.unlock("key", "back at work", "bob")
        set_value(store, "two")
        assert _get_numbers(list(store.watch(after=0, timeout=0.05))) == [1, 2]
        assert _get_numbers(list(store.watch(after=3, timeout=0.05))) == [2]

    def test_keys_are_listed_by_prefix_in_order(self) -> None:
        """A prefix is matched literally."""
        store = self.make()
        for key in ("b/2", "a", "b/1", "B", "b%", "b_2"):
            set_value(store, "value", key=key)
        assert list(store.list()) == sorted(["b/2", "a", "b/1", "B", "b%", "b_2"])
        assert list(store.list("b/")) == ["b/1", "b/2"]
        assert list(store.list("b%")) == ["b%"]
        assert list(store.list("b_")) == ["b_2"]
        assert list(store.list("c")) == []

    def test_watch_yields_changes_after_it_was_opened(self) -> None:
        """The watch has every change after the call, also before the first read; it ends after the timeout."""
        store = self.make()
        set_value(store, "before")
        watch = store.watch("key", timeout=0.1)
        set_value(store, "one")
        set_value(store, "elsewhere", key="other")
        set_value(store, "two")
        assert [version.value for version in watch] == ["one", "two"]

    def test_watch_starts_after_given_change(self) -> None:
        """`after` counts the changes of the whole store; 0 means all."""
        store = self.make()
        for text in ("one", "two", "three"):
            set_value(store, text)
        assert [version.value for version in store.watch(after=0, timeout=0.05)] == ["one", "two", "three"]
        assert [version.value for version in store.watch(after=2, timeout=0.05)] == ["three"]

    def test_watch_wakes_up_for_change_of_another_thread(self) -> None:
        """It waits for changes of other threads and yields them at once."""
        store, watched = self.make(), list[Version]()
        watch = store.watch("key", after=0, timeout=_WATCH_TIMEOUT_SECONDS)
        watcher = Thread(target=lambda: watched.extend(next(watch) for _ in range(3)))
        watcher.start()
        expected = [set_value(store, text) for text in ("one", "two", "three")]
        watcher.join(_WATCH_TIMEOUT_SECONDS)
        assert watched == expected

    def test_watch_yields_rollback(self) -> None:
        """A rollback is a change like any other."""
        store = self.make()
        set_value(store, "one")
        store.rollback("key", 1, "again", "bob")
        assert _get_numbers(list(store.watch(after=0, timeout=0.05))) == [1, 2]


def set_value(
    store: Versions, value: str, *, key: str = "key", expected: int | None = None, token: str | None = None
) -> Version:
    return store.set(key, value, "because", "ann", expected=expected, token=token)


def _get_numbers(versions: Sequence[Version]) -> list[int]:
    return [version.n for version in versions]
