"""Keys, values, versions and histories."""

from typing import Any

from atoll import errors, governed
from atoll.governed import errors as refusals
from atoll.testing import claims
from atoll.testing.parameters.base import Base, put, told

VALUES: tuple[Any, ...] = (
    0, 1, -1, 2**70, 0.1, 1.0, 1e300, True, False, None, "", "text", "åß∂ 日本語 🏝\n\t", [], [1, [2.5, None]], {},
    {"b": {"a": [1]}, "a": 0},
)  # fmt: skip
KEYS = (
    ".", "..", "...", "/", "a/b", "../a", "a b", "%", "%2E", "%2F", "a%2Fb", "日本語", "A", "a", "-", "~", "$&+=:@",
    "x" * 512, "日" * 300, ".hidden", "current.json", "%audit.jsonl", "'; DROP TABLE changes; --",
)  # fmt: skip


class Values(Base):
    """G13, G16 to G19, G27, G29."""

    def test_the_first_version_is_one_and_each_change_makes_the_next(self) -> None:
        """Each key counts for itself. G17."""
        store = self.make()
        assert [put(store, value) for value in "abc"] == [1, 2, 3]
        assert put(store, "a", key="other") == 1

    def test_get_returns_the_newest_value_and_its_version(self) -> None:
        """It unpacks into the two. G16."""
        store = self.make()
        put(store, "old", "new")
        value, version = store.get("key")
        assert (value, version) == ("new", 2)

    def test_every_json_value_comes_back_as_it_was(self) -> None:
        """Whole numbers stay whole, null is a value."""
        store = self.make()
        for value in VALUES:
            put(store, value)
            found = store.get("key").value
            assert found == value
            assert type(found) is type(value)

    def test_a_long_value_comes_back_as_it_was(self) -> None:
        """Prompts and playbooks are parameters too."""
        store = self.make()
        long = {"text": "a long line\n" * 20_000, "list": list(range(5_000))}
        put(store, long, "short")
        assert store.get("key@1").value == long

    def test_what_is_no_json_is_refused(self) -> None:
        """Numbers that are not finite, sets, bytes and objects; nothing is written."""
        store = self.make()
        for value in (float("nan"), float("inf"), {1, 2}, b"bytes", object(), [object()]):
            with claims.raises(refusals.InvalidValue):
                put(store, value)
        assert list(store.list()) == []

    def test_a_value_cannot_be_changed_from_outside(self) -> None:
        """What was given and what was returned are copies."""
        store, value = self.make(), {"a": [1]}
        put(store, value)
        value["a"].append(2)
        store.get("key").value["a"].append(3)
        assert store.get("key").value == {"a": [1]}

    def test_keys_are_free_texts(self) -> None:
        """Also those that a file system or a query would take for something else. G27, G29."""
        store = self.make()
        for key in KEYS:
            put(store, key, key=key)
        assert list(store.list()) == sorted(KEYS)
        for key in KEYS:
            assert store.get(key) == (key, 1)

    def test_what_cannot_be_a_key_is_refused_with_the_reason(self) -> None:
        """Empty, blank, 10,000 characters, half a character, a zero byte. G29."""
        store = self.make()
        for key in ("", " ", "x" * 10_000, "日" * 10_000, "\ud800", "a\0b", "a\nb"):
            with claims.raises(refusals.InvalidKey) as caught:
                put(store, 1, key=key)
            assert str(caught[0]).endswith((".", "out.", "most."))
        assert list(store.list()) == []

    def test_an_unknown_key_is_not_found(self) -> None:
        """By `get`, `history` and `rollback`. G13."""
        store = self.make()
        for ask in (store.get, store.history):
            with claims.raises(refusals.ParameterNotFound) as caught:
                ask("key")
            assert caught[0].key == "key"
        with claims.raises(refusals.ParameterNotFound):
            store.rollback("key", 1, "because", author="ann")

    def test_not_found_is_an_error_of_the_house(self) -> None:
        """Whoever catches `errors.NotFound` catches it."""
        with claims.raises(errors.NotFound):
            self.make().get("key")

    def test_keys_are_listed_sorted(self) -> None:
        """All of them, by the empty prefix. G18."""
        store = self.make()
        for key in ("b/2", "a", "b/1", "B"):
            put(store, 1, 2, key=key)
        assert list(store.list()) == ["B", "a", "b/1", "b/2"]

    def test_a_prefix_is_a_text_and_no_pattern(self) -> None:
        """Letters count as they are. G18."""
        store = self.make()
        for key in ("b/1", "B/1", "b%", "b_1", "b*"):
            put(store, 1, key=key)
        assert [list(store.list(prefix)) for prefix in ("b/", "b%", "b_", "b*", "c")] == [
            ["b/1"], ["b%"], ["b_1"], ["b*"], []
        ]  # fmt: skip

    def test_what_only_notes_speak_of_is_no_key(self) -> None:
        """A note makes no parameter."""
        store = self.make()
        store.note("proposal/1", "approve", None, "fine", author="ann")
        assert list(store.list()) == []
        with claims.raises(refusals.ParameterNotFound):
            store.get("proposal/1")

    def test_a_history_has_every_version_the_oldest_first(self) -> None:
        """With reason, author and time. G19, G25."""
        store = self.make()
        store.set("key", 1, "a start", author="ann")
        store.set("key", 2, "better", author="bob")
        first, second = store.history("key")
        assert told(first) == ("set", "key", 1, 1, "a start", "ann")
        assert told(second) == ("set", "key", 2, 2, "better", "bob")
        assert first.timestamp <= second.timestamp
        assert first.timestamp.utcoffset() is not None

    def test_a_limit_takes_the_newest_still_the_oldest_first(self) -> None:
        """Not above 0 means all. G19."""
        store = self.make()
        put(store, *range(1, 6))
        for limit, wanted in ((2, [4, 5]), (9, [1, 2, 3, 4, 5]), (0, [1, 2, 3, 4, 5]), (-1, [1, 2, 3, 4, 5])):
            assert [change.version for change in store.history("key", limit)] == wanted

    def test_a_version_is_read_by_its_number(self) -> None:
        """KEY@N; what is not there is not found."""
        store = self.make()
        put(store, "one", "two")
        assert store.get("key@1") == ("one", 1)
        for name in ("key@0", "key@3", f"key@{2**63}", f"key@{'9' * 5000}"):
            with claims.raises(refusals.VersionNotFound):
                store.get(name)

    def test_a_key_with_an_at_sign_is_a_key_first(self) -> None:
        """Only what is no key is read as a version or an alias."""
        store = self.make()
        put(store, "one", "two", key="ann")
        put(store, "a key", key="ann@1")
        assert store.get("ann@1") == ("a key", 1)
        assert store.get("ann@2") == ("two", 2)

    def test_what_was_written_is_there_for_others(self) -> None:
        """Another process sees values, histories, locks and aliases."""
        store = self.make()
        put(store, 1, 2)
        store.lock("key", "frozen", author="ann")
        other = self.reopen(store)
        if other is None:
            return
        assert other.get("key") == (2, 2)
        assert list(other.changes()) == list(store.changes())
        assert isinstance(other.lock_of("key"), governed.Change)
        with claims.raises(refusals.ParameterLocked):
            put(other, 3)
