"""Reasons, authors, compare-and-set, rollbacks, transactions."""

import threading

from atoll import errors, governed
from atoll.governed import errors as refusals
from atoll.testing import claims
from atoll.testing.parameters.base import Base, put, told


class Writing(Base):
    """G6, G14, G15, G17, G20, G25, G32."""

    def test_a_change_needs_a_reason(self) -> None:
        """Blanks are none; nothing is written. G15."""
        store = self.make()
        put(store, 1)
        for reason in ("", "  \n"):
            for change in (
                lambda reason: store.set("key", 2, reason),
                lambda reason: store.rollback("key", 1, reason),
                lambda reason: store.lock("key", reason),
                lambda reason: store.unlock("key", reason),
                lambda reason: store.alias("key", "production", 1, reason),
                lambda reason: store.note("key", "approve", None, reason),
            ):
                with claims.raises(refusals.ReasonRequired):
                    change(reason)
        assert len(list(store.changes())) == 1

    def test_the_reason_is_checked_before_all_else(self) -> None:
        """On an unknown, a locked and a stale key alike."""
        store = self.make()
        put(store, 1)
        store.lock("key", "frozen", author="ann")
        for key, expected in (("key", None), ("key", 7), ("unknown", 3)):
            with claims.raises(refusals.ReasonRequired):
                store.set(key, 2, " ", expected_version=expected)
        with claims.raises(refusals.ReasonRequired):
            store.rollback("unknown", 1, "")

    def test_a_reason_that_no_store_could_keep_is_refused(self) -> None:
        """A zero byte, half a character."""
        store = self.make()
        for reason in ("a\0b", "\ud800"):
            with claims.raises(errors.SetupError):
                store.set("key", 1, reason, author="ann")
        assert list(store.list()) == []

    def test_reasons_and_authors_come_back_as_they_were(self) -> None:
        """Any text, on several lines, in any script."""
        store = self.make()
        store.set("key", 1, 'because\n"ängste" 原因\\', author="O'Brien 王")
        assert told(store.history("key")[0])[-2:] == ('because\n"ängste" 原因\\', "O'Brien 王")

    def test_the_author_is_who_acts(self) -> None:
        """Unless one is named. G25."""
        store = self.make()
        with governed.acting("evolver-1"):
            store.set("key", 1, "because")
            store.set("key", 2, "because", author="ann")
        store.set("key", 3, "because")
        assert [change.author for change in store.history("key")] == ["evolver-1", "ann", "anonymous"]

    def test_a_change_based_on_another_version_is_a_conflict(self) -> None:
        """The error says which were expected and found; nothing changes."""
        store = self.make()
        put(store, 1)
        for expected in (0, 2):
            with claims.raises(refusals.VersionConflict) as caught:
                put(store, 2, expected_version=expected)
            assert (caught[0].key, caught[0].expected, caught[0].actual) == ("key", expected, 1)
        assert put(store, 2, expected_version=1) == 2

    def test_zero_expects_that_there_is_none_yet(self) -> None:
        """So that of two who begin a key one wins."""
        store = self.make()
        with claims.raises(refusals.VersionConflict):
            put(store, 1, expected_version=1)
        assert put(store, 1, expected_version=0) == 1
        with claims.raises(refusals.VersionConflict):
            put(store, 1, expected_version=0)

    def test_a_lock_is_told_before_a_conflict(self) -> None:
        """The order of checks: reason, key, lock, version."""
        store = self.make()
        put(store, 1)
        store.lock("key", "frozen", author="ann")
        with claims.raises(refusals.ParameterLocked):
            put(store, 2, expected_version=9)

    def test_of_many_who_change_the_same_version_one_wins(self) -> None:
        """Compare-and-set holds between threads."""
        store = self.make()
        put(store, 0)

        def attempt(number: int) -> int:
            try:
                return put(store, number, expected_version=1)
            except errors.Conflict:
                return 0

        assert sorted(claims.at_once(attempt)) == [0] * 7 + [2]

    def test_many_who_expect_nothing_all_make_a_version(self) -> None:
        """None is lost, and the numbers have no gaps."""
        store = self.make()
        made = claims.at_once(lambda number: put(store, number))
        assert sorted(made) == list(range(1, 9))
        assert [change.seq for change in store.changes()] == list(range(1, 9))

    def test_the_same_token_again_changes_nothing(self) -> None:
        """It returns the version that it made, whoever changed or locked the key since."""
        store = self.make()
        assert put(store, 1, token="run/1.0") == 1
        put(store, 2)
        store.lock("key", "frozen", author="ann")
        assert put(store, 1, token="run/1.0", expected_version=0) == 1
        assert len(store.history("key")) == 2

    def test_a_rollback_is_a_new_version_with_the_old_value(self) -> None:
        """What was in between stays. G20."""
        store = self.make()
        put(store, "a", "b", "c")
        assert store.rollback("key", 1, "c was worse", author="bob") == 4
        assert store.get("key") == ("a", 4)
        assert [change.value for change in store.history("key")] == ["a", "b", "c", "a"]
        assert told(store.history("key")[-1]) == ("rollback", "key", 4, "a", "c was worse", "bob")
        assert store.history("key")[-1].target == 1

    def test_a_rollback_to_an_unknown_version_is_not_found(self) -> None:
        """The error names it; nothing changes. G14."""
        store = self.make()
        put(store, 1)
        for version in (0, 2, -1):
            with claims.raises(refusals.VersionNotFound) as caught:
                store.rollback("key", version, "because", author="ann")
            assert (caught[0].key, caught[0].version) == ("key", version)
        assert len(store.history("key")) == 1

    def test_a_rollback_makes_those_stale_who_worked_on_the_head(self) -> None:
        """The head is a new version."""
        store = self.make()
        put(store, 1, 2)
        store.rollback("key", 1, "worse", author="ann")
        with claims.raises(refusals.VersionConflict):
            put(store, 3, expected_version=2)

    def test_a_rollback_to_the_newest_version_is_one_too(self) -> None:
        """Somebody wanted to say so."""
        store = self.make()
        put(store, 1)
        assert store.rollback("key", 1, "to be sure", author="ann") == 2

    def test_a_transaction_makes_all_its_changes(self) -> None:
        """Of several keys, next to each other in the log. G32."""
        store = self.make()
        put(store, 0, key="b")
        with store.transaction("together", author="ann") as draft:
            draft.set("a", 1)
            draft.set("b", 2, "for its own reason", expected_version=1)
            draft.lock("a")
        assert [told(change) for change in draft.changes] == [
            ("set", "a", 1, 1, "together", "ann"),
            ("set", "b", 2, 2, "for its own reason", "ann"),
            ("lock", "a", 1, None, "together", "ann"),
        ]
        assert [change.seq for change in draft.changes] == [2, 3, 4]

    def test_a_transaction_with_one_refusal_changes_nothing(self) -> None:
        """Whatever it was refused for."""
        store = self.make()
        put(store, 0, key="b")
        with claims.raises(refusals.VersionConflict), store.transaction("together", author="ann") as draft:
            draft.set("a", 1)
            draft.set("b", 2, expected_version=7)
        assert list(store.list()) == ["b"]
        assert len(list(store.changes())) == 1
        put(store, 1, key="b")
        assert [change.seq for change in store.changes()] == [1, 2]

    def test_a_transaction_that_is_left_by_an_exception_changes_nothing(self) -> None:
        """It was never meant."""
        store = self.make()
        with claims.raises(KeyError), store.transaction("together") as draft:
            draft.set("a", 1)
            raise KeyError
        assert list(store.list()) == []

    def test_a_transaction_sees_its_own_changes(self) -> None:
        """Two versions of one key, a lock of a new one, a way back."""
        store = self.make()
        with store.transaction("together", author="ann") as draft:
            draft.set("a", 1, expected_version=0)
            draft.set("a", 2, expected_version=1)
            draft.rollback("a", 1)
            draft.alias("a", "production", 3)
            draft.lock("a")
            draft.unlock("a")
        assert store.get("a@production") == (1, 3)

    def test_a_note_and_a_change_stand_in_the_log_together(self) -> None:
        """An approval with what it let in, or neither."""
        store = self.make()
        with store.transaction("approved", author="bob") as draft:
            draft.note("key", "approve", {"value": 1})
            draft.set("key", 1, token="proposal/1")
        assert [change.kind for change in store.changes()] == ["approve", "set"]
        with claims.raises(refusals.VersionConflict), store.transaction("approved", author="bob") as draft:
            draft.note("key", "approve", {"value": 2})
            draft.set("key", 2, expected_version=7)
        assert len(list(store.changes())) == 2
        assert put(store, 1, token="proposal/1") == 1

    def test_an_empty_transaction_writes_nothing(self) -> None:
        """There is nothing to say."""
        store = self.make()
        with store.transaction("together"):
            pass
        assert list(store.changes()) == []

    def test_a_transaction_is_seen_whole_or_not_at_all(self) -> None:
        """By whoever reads meanwhile."""
        store = self.make()
        wrong: list[int] = []
        done = threading.Event()

        def look() -> None:
            while not done.is_set():
                values = store.snapshot().values
                wrong.extend([1] if len({value for value, _ in values.values()}) > 1 else [])

        watcher = threading.Thread(target=look)
        watcher.start()
        for number in range(20):
            with store.transaction("together", author="ann") as draft:
                for key in "abc":
                    draft.set(key, number)
        done.set()
        watcher.join()
        assert not wrong

    def test_a_note_stands_in_the_log_and_makes_no_version(self) -> None:
        """Approvals and rejections, with their content. G35."""
        store = self.make()
        put(store, 1)
        made = store.note("key", "reject", {"value": 2}, "too bold", author="bob")
        assert told(made) == ("reject", "key", 0, {"value": 2}, "too bold", "bob")
        assert list(store.changes())[-1] == made
        assert store.get("key") == (1, 1)

    def test_a_note_cannot_pass_for_a_change(self) -> None:
        """Its kind is a word of its own."""
        store = self.make()
        put(store, 1)
        for kind in ("set", "lock", "unlock", "rollback", "alias", "", "Two words", "x" * 99):
            with claims.raises(errors.SetupError):
                store.note("key", kind, None, "because", author="ann")
        assert len(list(store.changes())) == 1
