"""Tests of locks and aliases."""

from atoll.governed import errors as governed_errors
from atoll.testing import fakes
from atoll.testing.parameters.values import ParameterStoreTests, get_change_fields, set_values


class LockingTests(ParameterStoreTests):
    """G12, G20 to G23; section 4.1 of aliases."""

    def test_locked_key_refuses_changes_with_author_and_reason(self) -> None:
        """Other keys are not locked. G12."""
        store = self.make()
        set_values(store, 1)
        store.lock("key", "holidays", author="bob")
        with fakes.raises(governed_errors.ParameterLocked) as caught:
            set_values(store, 2)
        assert (caught[0].key, caught[0].author, caught[0].reason) == ("key", "bob", "holidays")
        assert set_values(store, 1, key="key2") == 1
        assert store.get("key") == (1, 1)

    def test_rollback_of_locked_key_is_allowed_and_keeps_lock(self) -> None:
        """Rollbacks ignore locks. G20."""
        store = self.make()
        set_values(store, 1, 2)
        store.lock("key", "frozen", author="ann")
        assert store.rollback("key", 1, "worse", author="ann") == 3
        with fakes.raises(governed_errors.ParameterLocked):
            set_values(store, 3)

    def test_lock_and_unlock_of_unknown_key_fail(self) -> None:
        """Both raise `ParameterNotFound`. G13, G22."""
        store = self.make()
        for change in (store.lock, store.unlock):
            with fakes.raises(governed_errors.ParameterNotFound):
                change("key", "because", author="ann")
        assert list(store.changes()) == []

    def test_unlocked_key_can_be_changed(self) -> None:
        """Locking and unlocking can be repeated."""
        store = self.make()
        set_values(store, 1)
        for version in (2, 3):
            store.lock("key", "frozen", author="ann")
            store.unlock("key", "thawed", author="ann")
            assert set_values(store, 2) == version

    def test_unlock_of_unlocked_key_writes_nothing(self) -> None:
        """It does not raise either. G22."""
        store = self.make()
        set_values(store, 1)
        store.unlock("key", "to be sure", author="ann")
        assert len(list(store.changes())) == 1

    def test_second_lock_replaces_the_first(self) -> None:
        """Each lock is logged; one unlock removes both. G21."""
        store = self.make()
        set_values(store, 1)
        store.lock("key", "first", author="ann")
        store.lock("key", "second", author="bob")
        with fakes.raises(governed_errors.ParameterLocked) as caught:
            set_values(store, 2)
        assert caught[0].reason == "second"
        assert [change.kind for change in store.changes()] == ["set", "lock", "lock"]
        store.unlock("key", "over", author="ann")
        assert set_values(store, 2) == 2

    def test_locks_are_logged_without_value(self) -> None:
        """Their entries have the current version. G23, G26."""
        store = self.make()
        set_values(store, 1, 2)
        store.lock("key", "frozen", author="ann")
        store.unlock("key", "thawed", author="bob")
        lock, unlock = list(store.changes())[2:]
        assert get_change_fields(lock) == ("lock", "key", 2, None, "frozen", "ann")
        assert get_change_fields(unlock) == ("unlock", "key", 2, None, "thawed", "bob")
        assert lock.is_lock
        assert unlock.is_lock
        assert not next(iter(store.changes())).is_lock

    def test_lock_creates_no_version(self) -> None:
        """The history has only values."""
        store = self.make()
        set_values(store, 1)
        store.lock("key", "frozen", author="ann")
        assert [change.version for change in store.history("key")] == [1]

    def test_lock_of_key_can_be_read(self) -> None:
        """An unlocked or unknown key returns None."""
        store = self.make()
        set_values(store, 1)
        assert store.get_lock("key") is None
        assert store.get_lock("unknown") is None
        store.lock("key", "frozen", author="ann")
        lock = store.get_lock("key")
        assert lock is not None
        assert (lock.reason, lock.author) == ("frozen", "ann")
        store.unlock("key", "thawed", author="ann")
        assert store.get_lock("key") is None

    def test_alias_resolves_to_version(self) -> None:
        """KEY@ALIAS does not change with new versions. G32."""
        store = self.make()
        set_values(store, "a", "b", "c")
        store.alias("key", "production", 2, "tried", author="ann")
        assert store.get("key@production") == ("b", 2)
        assert store.get("key") == ("c", 3)
        assert dict(store.aliases("key")) == {"production": 2}

    def test_alias_can_be_moved_and_removed(self) -> None:
        """Each move is logged."""
        store = self.make()
        set_values(store, "a", "b")
        store.alias("key", "canary", 1, "tried", author="ann")
        store.alias("key", "canary", 2, "better", author="ann")
        assert store.get("key@canary") == ("b", 2)
        store.alias("key", "canary", None, "over", author="ann")
        with fakes.raises(governed_errors.VersionNotFound):
            store.get("key@canary")
        moves = [get_change_fields(change) for change in store.changes() if change.kind == "alias"]
        assert [(version, value) for _, _, version, value, _, _ in moves] == [
            (1, "canary"),
            (2, "canary"),
            (0, "canary"),
        ]
        assert dict(store.aliases("key")) == {}

    def test_removing_unknown_alias_writes_nothing(self) -> None:
        """The log stays the same."""
        store = self.make()
        set_values(store, 1)
        store.alias("key", "canary", None, "to be sure", author="ann")
        assert len(list(store.changes())) == 1

    def test_alias_of_unknown_key_or_version_fails(self) -> None:
        """Both raise a not-found error."""
        store = self.make()
        with fakes.raises(governed_errors.ParameterNotFound):
            store.alias("key", "production", 1, "because", author="ann")
        set_values(store, 1)
        with fakes.raises(governed_errors.VersionNotFound):
            store.alias("key", "production", 2, "because", author="ann")
        with fakes.raises(governed_errors.VersionNotFound):
            store.get("key@production")
        with fakes.raises(governed_errors.ParameterNotFound):
            store.get("other@production")

    def test_invalid_alias_names_are_refused(self) -> None:
        """For example, a number would mean a version."""
        store = self.make()
        set_values(store, 1)
        for name in ("", "1", "two words", "a@b", "a/b", "x" * 99):
            with fakes.raises(Exception) as caught:
                store.alias("key", name, 1, "because", author="ann")
            assert "alias" in str(caught[0])

    def test_alias_supports_compare_and_set(self) -> None:
        """One of two rollouts wins; 0 expects that the alias does not exist."""
        store = self.make()
        set_values(store, 1, 2)
        store.alias("key", "production", 1, "begin", author="ann", expected_version=0)
        with fakes.raises(governed_errors.VersionConflict):
            store.alias("key", "production", 2, "late", author="bob", expected_version=0)
        store.alias("key", "production", 2, "next", author="ann", expected_version=1)
        assert store.get("key@production").version == 2

    def test_alias_of_locked_key_moves_only_to_older_version(self) -> None:
        """Moves to older versions ignore locks."""
        store = self.make()
        set_values(store, 1, 2, 3)
        store.alias("key", "production", 2, "tried", author="ann")
        store.lock("key", "frozen", author="ann")
        for version in (3, None):
            with fakes.raises(governed_errors.ParameterLocked):
                store.alias("key", "production", version, "forward", author="ann")
        with fakes.raises(governed_errors.ParameterLocked):
            store.alias("key", "canary", 1, "new", author="ann")
        store.alias("key", "production", 1, "it broke", author="ann")
        assert store.get("key@production") == (1, 1)

    def test_aliases_of_different_keys_are_independent(self) -> None:
        """Several keys may use the same alias."""
        store = self.make()
        for key in "ab":
            set_values(store, 1, 2, key=key)
        store.alias("a", "production", 1, "tried", author="ann")
        store.alias("b", "production", 2, "tried", author="ann")
        assert store.get("a@production").version == 1
        assert store.get("b@production").version == 2
