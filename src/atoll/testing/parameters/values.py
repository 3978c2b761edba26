"""Tests of keys, values, versions and histories, and the base class of all tests of parameter stores."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from atoll import errors, governed
from atoll.governed import errors as governed_errors
from atoll.testing import fakes


class ParameterStoreTests(ABC):
    """Base class with the methods that a subclass implements."""

    @abstractmethod
    def make(self) -> governed.ParameterStore:
        """Returns a new, empty store."""

    def reopen(self, store: governed.ParameterStore) -> governed.ParameterStore | None:
        """Returns the store as another process would open it, or None if that is not possible."""
        return None


def set_values(store: governed.ParameterStore, *values: Any, key: str = "key", **options: Any) -> int:
    """Sets the values in order and returns the last version."""
    return [store.set(key, value, "because", author="ann", **options) for value in values][-1]


def collect_changes(watch: Iterator[governed.Change | governed.Gap]) -> list[governed.Change]:
    """Returns the changes of a watch; fails on a gap."""
    items = list(watch)
    assert not [item for item in items if isinstance(item, governed.Gap)]
    return [item for item in items if isinstance(item, governed.Change)]


def get_change_fields(change: governed.Change) -> tuple[Any, ...]:
    """Returns the fields of a change that its author chose."""
    return change.kind, change.key, change.version, change.value, change.reason, change.author


VALUES: tuple[Any, ...] = (
    0, 1, -1, 2**70, 0.1, 1.0, 1e300, True, False, None, "", "text", "åß∂ 日本語 🏝\n\t", [], [1, [2.5, None]], {},
    {"b": {"a": [1]}, "a": 0},
)  # fmt: skip
KEYS = (
    ".", "..", "...", "/", "a/b", "../a", "a b", "%", "%2E", "%2F", "a%2Fb", "日本語", "A", "a", "-", "~", "$&+=:@",
    "x" * 512, "日" * 300, ".hidden", "current.json", "%audit.jsonl", "'; DROP TABLE changes; --",
)  # fmt: skip


class ValueTests(ParameterStoreTests):
    """G13, G16 to G19, G27, G29."""

    def test_versions_count_from_one_per_key(self) -> None:
        """Each key has its own numbers. G17."""
        store = self.make()
        assert [set_values(store, value) for value in "abc"] == [1, 2, 3]
        assert set_values(store, "a", key="other") == 1

    def test_get_returns_newest_value_and_version(self) -> None:
        """The result unpacks into value and version. G16."""
        store = self.make()
        set_values(store, "old", "new")
        value, version = store.get("key")
        assert (value, version) == ("new", 2)

    def test_json_values_round_trip(self) -> None:
        """Integers stay integers, and null is a value."""
        store = self.make()
        for value in VALUES:
            set_values(store, value)
            stored = store.get("key").value
            assert stored == value
            assert type(stored) is type(value)

    def test_long_value_round_trips(self) -> None:
        """Prompts and playbooks may be values."""
        store = self.make()
        long = {"text": "a long line\n" * 20_000, "list": list(range(5_000))}
        set_values(store, long, "short")
        assert store.get("key@1").value == long

    def test_non_json_value_is_refused(self) -> None:
        """Non-finite numbers, sets, bytes and objects are refused; nothing is stored."""
        store = self.make()
        for value in (float("nan"), float("inf"), {1, 2}, b"bytes", object(), [object()]):
            with fakes.raises(governed_errors.InvalidValue):
                set_values(store, value)
        assert list(store.list()) == []

    def test_values_are_copied(self) -> None:
        """Changing a passed or returned value does not change the store."""
        store, value = self.make(), {"a": [1]}
        set_values(store, value)
        value["a"].append(2)
        store.get("key").value["a"].append(3)
        assert store.get("key").value == {"a": [1]}

    def test_keys_may_be_any_text(self) -> None:
        """Keys may have characters that are special in paths and queries. G27, G29."""
        store = self.make()
        for key in KEYS:
            set_values(store, key, key=key)
        assert list(store.list()) == sorted(KEYS)
        for key in KEYS:
            assert store.get(key) == (key, 1)

    def test_invalid_key_is_refused_with_reason(self) -> None:
        """Examples: empty, blank, 10,000 characters, a surrogate, a zero byte. G29."""
        store = self.make()
        for key in ("", " ", "x" * 10_000, "日" * 10_000, "\ud800", "a\0b", "a\nb"):
            with fakes.raises(governed_errors.InvalidKey) as caught:
                set_values(store, 1, key=key)
            assert str(caught[0]).endswith((".", "out.", "most."))
        assert list(store.list()) == []

    def test_unknown_key_is_not_found(self) -> None:
        """`get`, `history` and `rollback` raise. G13."""
        store = self.make()
        for read in (store.get, store.history):
            with fakes.raises(governed_errors.ParameterNotFound) as caught:
                read("key")
            assert caught[0].key == "key"
        with fakes.raises(governed_errors.ParameterNotFound):
            store.rollback("key", 1, "because", author="ann")

    def test_not_found_is_an_atoll_error(self) -> None:
        """`errors.NotFound` catches it."""
        with fakes.raises(errors.NotFound):
            self.make().get("key")

    def test_keys_are_listed_in_order(self) -> None:
        """The empty prefix lists all keys. G18."""
        store = self.make()
        for key in ("b/2", "a", "b/1", "B"):
            set_values(store, 1, 2, key=key)
        assert list(store.list()) == ["B", "a", "b/1", "b/2"]

    def test_prefix_is_matched_literally(self) -> None:
        """Case and pattern characters are matched as they are. G18."""
        store = self.make()
        for key in ("b/1", "B/1", "b%", "b_1", "b*"):
            set_values(store, 1, key=key)
        assert [list(store.list(prefix)) for prefix in ("b/", "b%", "b_", "b*", "c")] == [
            ["b/1"], ["b%"], ["b_1"], ["b*"], []
        ]  # fmt: skip

    def test_note_creates_no_key(self) -> None:
        """A note alone creates no parameter."""
        store = self.make()
        store.note("proposal/1", "approve", None, "fine", author="ann")
        assert list(store.list()) == []
        with fakes.raises(governed_errors.ParameterNotFound):
            store.get("proposal/1")

    def test_history_lists_versions_oldest_first(self) -> None:
        """Entries have reason, author and time. G19, G25."""
        store = self.make()
        store.set("key", 1, "a start", author="ann")
        store.set("key", 2, "better", author="bob")
        first, second = store.history("key")
        assert get_change_fields(first) == ("set", "key", 1, 1, "a start", "ann")
        assert get_change_fields(second) == ("set", "key", 2, 2, "better", "bob")
        assert first.timestamp <= second.timestamp
        assert first.timestamp.utcoffset() is not None

    def test_history_limit_keeps_newest_versions(self) -> None:
        """0 and negative numbers mean all. G19."""
        store = self.make()
        set_values(store, *range(1, 6))
        for limit, expected in ((2, [4, 5]), (9, [1, 2, 3, 4, 5]), (0, [1, 2, 3, 4, 5]), (-1, [1, 2, 3, 4, 5])):
            assert [change.version for change in store.history("key", limit)] == expected

    def test_version_can_be_read_by_number(self) -> None:
        """KEY@N reads version N; an unknown version is not found."""
        store = self.make()
        set_values(store, "one", "two")
        assert store.get("key@1") == ("one", 1)
        for name in ("key@0", "key@3", f"key@{2**63}", f"key@{'9' * 5000}"):
            with fakes.raises(governed_errors.VersionNotFound):
                store.get(name)

    def test_key_with_at_sign_takes_precedence(self) -> None:
        """A version or an alias is read only if the full text is not a key."""
        store = self.make()
        set_values(store, "one", "two", key="ann")
        set_values(store, "a key", key="ann@1")
        assert store.get("ann@1") == ("a key", 1)
        assert store.get("ann@2") == ("two", 2)

    def test_writes_are_visible_to_other_processes(self) -> None:
        """They see values, histories, locks and aliases."""
        store = self.make()
        set_values(store, 1, 2)
        store.lock("key", "frozen", author="ann")
        other_store = self.reopen(store)
        if other_store is None:
            return
        assert other_store.get("key") == (2, 2)
        assert list(other_store.changes()) == list(store.changes())
        assert isinstance(other_store.get_lock("key"), governed.Change)
        with fakes.raises(governed_errors.ParameterLocked):
            set_values(other_store, 3)
