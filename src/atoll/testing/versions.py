"""What every store of versions promises."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from threading import Thread

from atoll import errors
from atoll.testing import claims
from atoll.versions import Version, Versions

_PATIENCE_SECONDS = 5.0


class VersionsSuite(ABC):
    """Subclass it, say how to make an empty store, and every test runs on yours."""

    @abstractmethod
    def make(self) -> Versions:
        """Returns a new, empty store."""

    def test_what_is_not_there_is_not_found(self) -> None:
        """`get` and `rollback` raise `NotFound` for an unknown key or version; histories of nothing are empty."""
        store = self.make()
        with claims.raises(errors.NotFound):
            store.get("key")
        put(store, "one")
        for n in (0, 2, -1):
            with claims.raises(errors.NotFound):
                store.get("key", n)
            with claims.raises(errors.NotFound):
                store.rollback("key", n, "reason", "ann")
        with claims.raises(errors.NotFound):
            store.rollback("other", 1, "reason", "ann")
        assert len(store.history("other")) == 0
        assert list(store.list()) == ["key"]

    def test_versions_of_a_key_count_from_one_without_gaps(self) -> None:
        """Each key counts for itself; `get` returns the head, or the n-th."""
        store = self.make()
        assert [put(store, text).n for text in ("one", "two", "three")] == [1, 2, 3]
        assert put(store, "alone", key="other").n == 1
        assert store.get("key") == Version("key", 3, "three", "because", "ann")
        assert store.get("key", 2) == Version("key", 2, "two", "because", "ann")
        assert store.get("key").id == "key@3"

    def test_a_value_comes_back_as_it_was(self) -> None:
        """Values are texts of any length and any characters; the empty text is one."""
        store = self.make()
        for text in ("", " ", '{"a": [1]}', "åß∂ 日本語 🏝\n\t\x00", "x" * 100_000):
            put(store, text)
            assert store.get("key").value == text

    def test_a_change_needs_a_key_a_reason_and_an_author(self) -> None:
        """`SetupError` otherwise, and nothing changes."""
        store = self.make()
        put(store, "one")
        for key, reason, author in (("", "why", "ann"), ("key", " ", "ann"), ("key", "why", "")):
            with claims.raises(errors.SetupError):
                store.set(key, "value", reason, author)
            with claims.raises(errors.SetupError):
                store.rollback(key, 1, reason, author)
        assert len(store.history("key")) == 1

    def test_a_change_based_on_another_version_is_a_conflict(self) -> None:
        """`expected` must be the head's number, 0 where there is none yet; otherwise nothing changes."""
        store = self.make()
        with claims.raises(errors.Conflict):
            put(store, "one", expected=1)
        assert put(store, "one", expected=0).n == 1
        for expected in (0, 2):
            with claims.raises(errors.Conflict):
                put(store, "two", expected=expected)
        assert put(store, "two", expected=1).n == 2
        assert store.get("key").value == "two"

    def test_of_many_who_change_the_same_version_one_wins(self) -> None:
        """Compare-and-set holds between threads."""
        store = self.make()
        put(store, "one")

        def attempt(number: int) -> int:
            try:
                return put(store, f"by {number}", expected=1).n
            except errors.Conflict:
                return 0

        assert sorted(claims.at_once(attempt)) == [0] * 7 + [2]
        assert len(store.history("key")) == 2

    def test_many_who_expect_nothing_all_make_a_version(self) -> None:
        """Without `expected` no change is refused, and the numbers have no gaps."""
        store = self.make()
        made = claims.at_once(lambda number: put(store, f"by {number}"))
        assert sorted(version.n for version in made) == list(range(1, 9))
        assert {version.n: version.value for version in store.history("key")} == {each.n: each.value for each in made}

    def test_the_same_token_again_changes_nothing(self) -> None:
        """It returns the version that it made, whoever changed or locked the key since: a step may run twice."""
        store = self.make()
        made = put(store, "one", expected=0, token="run/1.0")
        assert put(store, "one", expected=0, token="run/1.0") == made
        put(store, "two")
        assert put(store, "one", expected=0, token="run/1.0") == made
        store.lock("key", "holidays", "bob")
        assert put(store, "one", expected=0, token="run/1.0") == made
        assert [version.value for version in store.history("key")] == ["one", "two"]

    def test_one_token_at_once_from_many_makes_one_version(self) -> None:
        """Tokens hold between threads."""
        store = self.make()
        made = claims.at_once(lambda _: put(store, "one", token="run/1.0"))
        assert set(made) == {store.get("key", 1)}
        assert len(store.history("key")) == 1

    def test_a_history_has_every_version_the_oldest_first(self) -> None:
        """None is ever lost, rollbacks included."""
        store = self.make()
        for text in ("one", "two"):
            put(store, text)
        store.rollback("key", 1, "two was worse", "bob")
        assert [(each.n, each.value, each.reason, each.author) for each in store.history("key")] == [
            (1, "one", "because", "ann"),
            (2, "two", "because", "ann"),
            (3, "one", "two was worse", "bob"),
        ]

    def test_a_rollback_is_a_new_version_with_an_old_value(self) -> None:
        """The head is new, so that whoever was working on the old head is refused as stale."""
        store = self.make()
        for text in ("one", "two"):
            put(store, text)
        assert store.rollback("key", 1, "two was worse", "bob") == store.get("key")
        assert (store.get("key").n, store.get("key").value) == (3, "one")
        with claims.raises(errors.Conflict):
            put(store, "based on two", expected=2)

    def test_a_locked_key_refuses_changes_but_for_rollbacks(self) -> None:
        """`set` is a conflict until `unlock`; a way back is always open. Other keys are free."""
        store = self.make()
        put(store, "one")
        store.lock("key", "holidays", "bob")
        with claims.raises(errors.Conflict):
            put(store, "two")
        put(store, "free", key="key2")
        assert store.rollback("key", 1, "to be sure", "bob").n == 2
        store.unlock("key", "back at work", "bob")
        assert put(store, "two").n == 3

    def test_a_lock_says_why_and_who(self) -> None:
        """The refusal names the one to ask."""
        store = self.make()
        put(store, "one")
        store.lock("key", "holidays", "bob")
        with claims.raises(errors.Conflict) as caught:
            put(store, "two")
        assert "bob" in str(caught[0])
        assert "holidays" in str(caught[0])
        for change in (store.lock, store.unlock):
            with claims.raises(errors.SetupError):
                change("key", "", "bob")

    def test_a_lock_needs_a_key(self) -> None:
        """Nobody can lock or unlock what is not there; to unlock what is free changes nothing."""
        store = self.make()
        for change in (store.lock, store.unlock):
            with claims.raises(errors.NotFound):
                change("key", "because", "ann")
        put(store, "one")
        store.unlock("key", "to be sure", "ann")
        assert put(store, "two").n == 2

    def test_locks_count_as_changes_and_are_no_versions(self) -> None:
        """A watch passes over them, and goes on behind them."""
        store = self.make()
        put(store, "one")
        store.lock("key", "holidays", "bob")
        store.unlock("key", "back at work", "bob")
        put(store, "two")
        assert _numbers(list(store.watch(after=0, timeout=0.05))) == [1, 2]
        assert _numbers(list(store.watch(after=3, timeout=0.05))) == [2]

    def test_keys_are_listed_by_prefix_and_sorted(self) -> None:
        """A prefix is a text, no pattern."""
        store = self.make()
        for key in ("b/2", "a", "b/1", "B", "b%", "b_2"):
            put(store, "value", key=key)
        assert list(store.list()) == sorted(["b/2", "a", "b/1", "B", "b%", "b_2"])
        assert list(store.list("b/")) == ["b/1", "b/2"]
        assert list(store.list("b%")) == ["b%"]
        assert list(store.list("b_")) == ["b_2"]
        assert list(store.list("c")) == []

    def test_a_watch_sees_what_is_made_after_it_was_opened(self) -> None:
        """From the call of `watch` on nothing is missed, also before the first look; it ends when nothing comes."""
        store = self.make()
        put(store, "before")
        watch = store.watch("key", timeout=0.1)
        put(store, "one")
        put(store, "elsewhere", key="other")
        put(store, "two")
        assert [version.value for version in watch] == ["one", "two"]

    def test_a_watch_begins_where_it_is_told(self) -> None:
        """`after` counts the changes of the whole store; 0 is its beginning."""
        store = self.make()
        for text in ("one", "two", "three"):
            put(store, text)
        assert [version.value for version in store.watch(after=0, timeout=0.05)] == ["one", "two", "three"]
        assert [version.value for version in store.watch(after=2, timeout=0.05)] == ["three"]

    def test_a_watch_wakes_up_for_a_change(self) -> None:
        """It waits for changes of other threads and yields them while they come."""
        store, seen = self.make(), list[Version]()
        watch = store.watch("key", after=0, timeout=_PATIENCE_SECONDS)
        watcher = Thread(target=lambda: seen.extend(next(watch) for _ in range(3)))
        watcher.start()
        made = [put(store, text) for text in ("one", "two", "three")]
        watcher.join(_PATIENCE_SECONDS)
        assert seen == made

    def test_a_rollback_is_watched_too(self) -> None:
        """It is a change like any other."""
        store = self.make()
        put(store, "one")
        store.rollback("key", 1, "again", "bob")
        assert _numbers(list(store.watch(after=0, timeout=0.05))) == [1, 2]


def put(
    store: Versions, value: str, *, key: str = "key", expected: int | None = None, token: str | None = None
) -> Version:
    return store.set(key, value, "because", "ann", expected=expected, token=token)


def _numbers(found: Sequence[Version]) -> list[int]:
    return [version.n for version in found]
