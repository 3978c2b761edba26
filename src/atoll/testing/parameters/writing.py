"""Tests of reasons, authors, compare-and-set, rollbacks and transactions."""

import threading

from atoll import errors, governed
from atoll.governed import errors as governed_errors
from atoll.testing import fakes
from atoll.testing.parameters.values import ParameterStoreTests, get_change_fields, set_values


class WritingTests(ParameterStoreTests):
    """G6, G14, G15, G17, G20, G25, G32."""

    def test_change_without_reason_is_refused(self) -> None:
        """A blank reason is refused too; nothing is stored. G15."""
        store = self.make()
        set_values(store, 1)
        for reason in ("", "  \n"):
            for change in (
                lambda reason: store.set("key", 2, reason),
                lambda reason: store.rollback("key", 1, reason),
                lambda reason: store.lock("key", reason),
                lambda reason: store.unlock("key", reason),
                lambda reason: store.alias("key", "production", 1, reason),
                lambda reason: store.note("key", "approve", None, reason),
            ):
                with fakes.raises(governed_errors.ReasonRequired):
                    change(reason)
        assert len(list(store.changes())) == 1

    def test_reason_is_checked_first(self) -> None:
        """The check comes before those of key, lock and version."""
        store = self.make()
        set_values(store, 1)
        store.lock("key", "frozen", author="ann")
        for key, expected in (("key", None), ("key", 7), ("unknown", 3)):
            with fakes.raises(governed_errors.ReasonRequired):
                store.set(key, 2, " ", expected_version=expected)
        with fakes.raises(governed_errors.ReasonRequired):
            store.rollback("unknown", 1, "")

    def test_unstorable_reason_is_refused(self) -> None:
        """Examples: a zero byte, a surrogate."""
        store = self.make()
        for reason in ("a\0b", "\ud800"):
            with fakes.raises(errors.SetupError):
                store.set("key", 1, reason, author="ann")
        assert list(store.list()) == []

    def test_reason_and_author_round_trip(self) -> None:
        """They may have several lines and any script."""
        store = self.make()
        store.set("key", 1, 'because\n"ängste" 原因\\', author="O'Brien 王")
        assert get_change_fields(store.history("key")[0])[-2:] == ('because\n"ängste" 原因\\', "O'Brien 王")

    def test_author_defaults_to_current_author(self) -> None:
        """A given author takes precedence. G25."""
        store = self.make()
        with governed.author_context("evolver-1"):
            store.set("key", 1, "because")
            store.set("key", 2, "because", author="ann")
        store.set("key", 3, "because")
        assert [change.author for change in store.history("key")] == ["evolver-1", "ann", "anonymous"]

    def test_unexpected_version_is_a_conflict(self) -> None:
        """The error has both versions; nothing changes."""
        store = self.make()
        set_values(store, 1)
        for expected in (0, 2):
            with fakes.raises(governed_errors.VersionConflict) as caught:
                set_values(store, 2, expected_version=expected)
            assert (caught[0].key, caught[0].expected, caught[0].actual) == ("key", expected, 1)
        assert set_values(store, 2, expected_version=1) == 2

    def test_expected_version_zero_means_new_key(self) -> None:
        """One of two writers that create a key wins."""
        store = self.make()
        with fakes.raises(governed_errors.VersionConflict):
            set_values(store, 1, expected_version=1)
        assert set_values(store, 1, expected_version=0) == 1
        with fakes.raises(governed_errors.VersionConflict):
            set_values(store, 1, expected_version=0)

    def test_lock_is_reported_before_conflict(self) -> None:
        """The order of checks is reason, key, lock, version."""
        store = self.make()
        set_values(store, 1)
        store.lock("key", "frozen", author="ann")
        with fakes.raises(governed_errors.ParameterLocked):
            set_values(store, 2, expected_version=9)

    def test_one_of_many_concurrent_changes_wins(self) -> None:
        """Compare-and-set works between threads."""
        store = self.make()
        set_values(store, 0)

        def attempt(value: int) -> int:
            try:
                return set_values(store, value, expected_version=1)
            except errors.Conflict:
                return 0

        assert sorted(fakes.run_concurrently(attempt)) == [0] * 7 + [2]

    def test_concurrent_changes_without_expectation_all_succeed(self) -> None:
        """No change is lost, and the numbers have no gaps."""
        store = self.make()
        versions = fakes.run_concurrently(lambda value: set_values(store, value))
        assert sorted(versions) == list(range(1, 9))
        assert [change.seq for change in store.changes()] == list(range(1, 9))

    def test_repeated_token_changes_nothing(self) -> None:
        """It returns the first result, even after other changes or a lock."""
        store = self.make()
        assert set_values(store, 1, token="run/1.0") == 1
        set_values(store, 2)
        store.lock("key", "frozen", author="ann")
        assert set_values(store, 1, token="run/1.0", expected_version=0) == 1
        assert len(store.history("key")) == 2

    def test_rollback_creates_new_version_with_old_value(self) -> None:
        """Versions in between stay. G20."""
        store = self.make()
        set_values(store, "a", "b", "c")
        assert store.rollback("key", 1, "c was worse", author="bob") == 4
        assert store.get("key") == ("a", 4)
        assert [change.value for change in store.history("key")] == ["a", "b", "c", "a"]
        assert get_change_fields(store.history("key")[-1]) == ("rollback", "key", 4, "a", "c was worse", "bob")
        assert store.history("key")[-1].target == 1

    def test_rollback_to_unknown_version_fails(self) -> None:
        """The error names the version; nothing changes. G14."""
        store = self.make()
        set_values(store, 1)
        for version in (0, 2, -1):
            with fakes.raises(governed_errors.VersionNotFound) as caught:
                store.rollback("key", version, "because", author="ann")
            assert (caught[0].key, caught[0].version) == ("key", version)
        assert len(store.history("key")) == 1

    def test_rollback_makes_old_expected_version_stale(self) -> None:
        """A rollback creates a new version."""
        store = self.make()
        set_values(store, 1, 2)
        store.rollback("key", 1, "worse", author="ann")
        with fakes.raises(governed_errors.VersionConflict):
            set_values(store, 3, expected_version=2)

    def test_rollback_to_newest_version_creates_version(self) -> None:
        """The rollback is recorded."""
        store = self.make()
        set_values(store, 1)
        assert store.rollback("key", 1, "to be sure", author="ann") == 2

    def test_transaction_applies_all_changes(self) -> None:
        """Changes of several keys are adjacent in the log. G32."""
        store = self.make()
        set_values(store, 0, key="b")
        with store.transaction("together", author="ann") as transaction:
            transaction.set("a", 1)
            transaction.set("b", 2, "for its own reason", expected_version=1)
            transaction.lock("a")
        assert [get_change_fields(change) for change in transaction.changes] == [
            ("set", "a", 1, 1, "together", "ann"),
            ("set", "b", 2, 2, "for its own reason", "ann"),
            ("lock", "a", 1, None, "together", "ann"),
        ]
        assert [change.seq for change in transaction.changes] == [2, 3, 4]

    def test_transaction_with_refused_change_changes_nothing(self) -> None:
        """One refused change cancels all."""
        store = self.make()
        set_values(store, 0, key="b")
        with fakes.raises(governed_errors.VersionConflict), store.transaction("together", author="ann") as transaction:
            transaction.set("a", 1)
            transaction.set("b", 2, expected_version=7)
        assert list(store.list()) == ["b"]
        assert len(list(store.changes())) == 1
        set_values(store, 1, key="b")
        assert [change.seq for change in store.changes()] == [1, 2]

    def test_transaction_with_exception_changes_nothing(self) -> None:
        """An exception in the block cancels all changes."""
        store = self.make()
        with fakes.raises(KeyError), store.transaction("together") as transaction:
            transaction.set("a", 1)
            raise KeyError
        assert list(store.list()) == []

    def test_transaction_sees_its_own_changes(self) -> None:
        """Later changes in the transaction see earlier ones."""
        store = self.make()
        with store.transaction("together", author="ann") as transaction:
            transaction.set("a", 1, expected_version=0)
            transaction.set("a", 2, expected_version=1)
            transaction.rollback("a", 1)
            transaction.alias("a", "production", 3)
            transaction.lock("a")
            transaction.unlock("a")
        assert store.get("a@production") == (1, 3)

    def test_note_and_change_are_logged_together(self) -> None:
        """Either both are stored or neither."""
        store = self.make()
        with store.transaction("approved", author="bob") as transaction:
            transaction.note("key", "approve", {"value": 1})
            transaction.set("key", 1, token="proposal/1")
        assert [change.kind for change in store.changes()] == ["approve", "set"]
        with fakes.raises(governed_errors.VersionConflict), store.transaction("approved", author="bob") as transaction:
            transaction.note("key", "approve", {"value": 2})
            transaction.set("key", 2, expected_version=7)
        assert len(list(store.changes())) == 2
        assert set_values(store, 1, token="proposal/1") == 1

    def test_empty_transaction_writes_nothing(self) -> None:
        """No entry is logged."""
        store = self.make()
        with store.transaction("together"):
            pass
        assert list(store.changes()) == []

    def test_transaction_is_atomic_for_readers(self) -> None:
        """Concurrent readers see all changes or none."""
        store = self.make()
        mixed_snapshots: list[int] = []
        is_finished = threading.Event()

        def read_snapshots() -> None:
            while not is_finished.is_set():
                values = store.snapshot().values
                mixed_snapshots.extend([1] if len({value for value, _ in values.values()}) > 1 else [])

        reader = threading.Thread(target=read_snapshots)
        reader.start()
        for number in range(20):
            with store.transaction("together", author="ann") as transaction:
                for key in "abc":
                    transaction.set(key, number)
        is_finished.set()
        reader.join()
        assert not mixed_snapshots

    def test_note_is_logged_without_version(self) -> None:
        """Approvals and rejections have their content. G35."""
        store = self.make()
        set_values(store, 1)
        note = store.note("key", "reject", {"value": 2}, "too bold", author="bob")
        assert get_change_fields(note) == ("reject", "key", 0, {"value": 2}, "too bold", "bob")
        assert list(store.changes())[-1] == note
        assert store.get("key") == (1, 1)

    def test_note_kind_cannot_be_a_change_kind(self) -> None:
        """Kinds of changes and invalid words are refused."""
        store = self.make()
        set_values(store, 1)
        for kind in ("set", "lock", "unlock", "rollback", "alias", "", "Two words", "x" * 99):
            with fakes.raises(errors.SetupError):
                store.note("key", kind, None, "because", author="ann")
        assert len(list(store.changes())) == 1
