"""Watches, moments of the past, the audit log."""

import threading
import time
from datetime import timedelta

from atoll import governed
from atoll.governed import errors as refusals
from atoll.testing import claims
from atoll.testing.parameters.base import Base, put, seen, told

PATIENCE_SECONDS = 5.0


class Watching(Base):
    """G24 to G26; section 4.1 of watches, as-of reads and the chain."""

    def test_a_watch_sees_what_is_made_after_it_was_opened(self) -> None:
        """From the call on nothing is missed; it ends when nothing comes. G24."""
        store = self.make()
        put(store, "before")
        watch = store.watch("key", timeout=0.05)
        put(store, "one")
        put(store, "elsewhere", key="other")
        put(store, "two")
        assert [change.value for change in seen(watch)] == ["one", "two"]

    def test_a_watch_of_everything_has_the_empty_prefix(self) -> None:
        """Changes of all keys, in their order. G24."""
        store = self.make()
        watch = store.watch(timeout=0.05)
        for key in ("b", "a", "b"):
            put(store, 1, key=key)
        assert [(change.key, change.version) for change in seen(watch)] == [("b", 1), ("a", 1), ("b", 2)]

    def test_an_event_is_the_whole_line_of_the_log(self) -> None:
        """Nobody need ask for the history. G26."""
        store = self.make()
        watch = store.watch(timeout=0.05)
        put(store, 1)
        store.lock("key", "frozen", author="ann")
        store.rollback("key", 1, "again", author="bob")
        store.note("key", "approve", [1], "fine", author="ann")
        found = seen(watch)
        assert [told(change)[:4] for change in found] == [
            ("set", "key", 1, 1), ("lock", "key", 1, None), ("rollback", "key", 2, 1), ("approve", "key", 0, [1])
        ]  # fmt: skip
        assert found == list(store.changes())

    def test_a_watch_goes_on_after_the_last_change_that_was_seen(self) -> None:
        """The number of a change is where to go on; 0 is the beginning."""
        store = self.make()
        put(store, "one", "two", "three")
        assert [change.value for change in seen(store.watch(after=0, timeout=0.0))] == ["one", "two", "three"]
        assert [change.value for change in seen(store.watch(after=2, timeout=0.0))] == ["three"]
        assert seen(store.watch(after=3, timeout=0.0)) == []

    def test_a_watch_that_goes_on_reads_all_that_it_missed(self) -> None:
        """However much it was: what was made before the watch began never makes a gap."""
        store = self.make()
        put(store, *range(100))
        assert [change.seq for change in seen(store.watch(after=10, timeout=0.0))] == list(range(11, 101))

    def test_a_slow_watcher_is_told_of_the_gap(self) -> None:
        """The newest 16 wait; what was before them is named, and can be read. G24."""
        store = self.make()
        watch = store.watch("key", timeout=0.05)
        put(store, *range(40))
        gap, *rest = list(watch)
        assert gap == governed.Gap(1, 24)
        assert [each.seq for each in rest if isinstance(each, governed.Change)] == list(range(25, 41))
        missed = list(store.changes("key", after=gap[0] - 1, upto=gap[1]))
        assert [change.value for change in missed] == list(range(24))

    def test_a_watcher_chooses_how_many_may_wait(self) -> None:
        """None: all of them."""
        store = self.make()
        watches = [store.watch(timeout=0.05, buffer=buffer) for buffer in (None, 3)]
        put(store, *range(40))
        assert len(seen(watches[0])) == 40
        assert next(watches[1]) == governed.Gap(1, 37)
        assert len(seen(watches[1])) == 3

    def test_changes_of_other_keys_make_no_gap(self) -> None:
        """Only what the watcher wanted counts."""
        store = self.make()
        watch = store.watch("key", timeout=0.05)
        put(store, 1)
        put(store, *range(40), key="other")
        assert [change.value for change in seen(watch)] == [1]

    def test_nobody_waits_for_a_watcher_that_does_not_look(self) -> None:
        """Writers are as fast as ever. G24."""
        store = self.make()
        watches = [store.watch() for _ in range(8)]
        put(store, *range(50))
        assert store.get("key").version == 50
        assert len(watches) == 8

    def test_a_watch_wakes_up_for_a_change(self) -> None:
        """It waits for other threads and yields what they make while they make it."""
        store = self.make()
        watch = store.watch("key", timeout=PATIENCE_SECONDS)
        found: list[object] = []
        watcher = threading.Thread(target=lambda: found.extend(next(watch) for _ in range(3)))
        watcher.start()
        for value in range(3):
            time.sleep(0.01)
            put(store, value)
        watcher.join(PATIENCE_SECONDS)
        assert found == list(store.changes())

    def test_a_watch_sees_what_others_change(self) -> None:
        """Through another handle, as another process would."""
        store = self.make()
        other = self.reopen(store)
        if other is None:
            return
        watch = store.watch("key", timeout=PATIENCE_SECONDS)
        put(other, "elsewhere")
        found = next(watch)
        assert isinstance(found, governed.Change)
        assert found.value == "elsewhere"

    def test_a_watch_without_changes_ends_in_time(self) -> None:
        """After about its timeout."""
        began = time.monotonic()
        assert list(self.make().watch(timeout=0.05)) == []
        assert 0.04 < time.monotonic() - began < PATIENCE_SECONDS

    def test_changes_count_from_one_without_gaps(self) -> None:
        """Whatever their kind, and of all keys together."""
        store = self.make()
        put(store, 1)
        put(store, 1, key="other")
        store.lock("key", "frozen", author="ann")
        store.note("key", "approve", None, "fine", author="ann")
        assert [change.seq for change in store.changes()] == [1, 2, 3, 4]
        assert [change.seq for change in store.changes("other")] == [2]
        assert [change.seq for change in store.changes(after=1, upto=3)] == [2, 3]

    def test_a_value_is_read_as_it_stood_after_so_many_changes(self) -> None:
        """Of the whole store; before its first version there was none."""
        store = self.make()
        put(store, "other", key="other")
        put(store, "one", "two")
        assert store.get("key", as_of=2) == ("one", 1)
        assert store.get("key", as_of=3) == store.get("key", as_of=99) == ("two", 2)
        for moment in (0, 1):
            with claims.raises(refusals.VersionNotFound):
                store.get("key", as_of=moment)

    def test_a_value_is_read_as_it_stood_at_a_moment(self) -> None:
        """By the time that its change names."""
        store = self.make()
        put(store, "one")
        time.sleep(0.002)
        put(store, "two")
        first, second = (change.timestamp for change in store.history("key"))
        assert store.get("key", as_of=first) == ("one", 1)
        assert store.get("key", as_of=second - timedelta(microseconds=1)) == ("one", 1)
        assert store.get("key", as_of=second) == ("two", 2)
        with claims.raises(refusals.VersionNotFound):
            store.get("key", as_of=first - timedelta(days=1))

    def test_an_alias_is_read_where_it_pointed(self) -> None:
        """It has a past too."""
        store = self.make()
        put(store, "one", "two")
        store.alias("key", "production", 1, "tried", author="ann")
        store.alias("key", "production", 2, "better", author="ann")
        assert store.get("key@production", as_of=3) == ("one", 1)
        assert store.get("key@production") == ("two", 2)
        with claims.raises(refusals.VersionNotFound):
            store.get("key@production", as_of=2)

    def test_a_snapshot_has_all_keys_at_one_moment(self) -> None:
        """Now or then, all or those with a prefix."""
        store = self.make()
        put(store, 1, key="a/1")
        put(store, 2, key="b")
        put(store, 3, key="a/1")
        now = store.snapshot()
        assert (now.seq, dict(now.values)) == (3, {"a/1": (3, 2), "b": (2, 1)})
        assert dict(store.snapshot(as_of=2).values) == {"a/1": (1, 1), "b": (2, 1)}
        assert dict(store.snapshot("a/").values) == {"a/1": (3, 2)}
        assert dict(store.snapshot(as_of=0).values) == {}

    def test_the_log_of_any_changes_verifies(self) -> None:
        """Of none, too; the report says how far it goes."""
        store = self.make()
        assert store.verify().seq == 0
        put(store, 1, {"long": "x" * 20_000}, None)
        store.lock("key", "frozen\n日本", author="ann")
        store.rollback("key", 1, "again", author="ann")
        store.note("key", "approve", {"a": [1]}, "fine", author="bob")
        found = store.verify()
        assert (found.seq, found.hash) == (6, list(store.changes())[-1].hash)

    def test_an_anchor_of_the_log_holds_when_it_grows(self) -> None:
        """And says so if the log is another one."""
        store, other = self.make(), governed.MemoryParameters()
        put(store, 1)
        anchor = store.anchor(b"secret")
        anchor.check(b"secret")
        put(store, 2)
        assert store.verify([anchor]).num_anchors == 1
        with claims.raises(refusals.ChainBroken):
            anchor.check(b"guess")
        with claims.raises(refusals.ChainBroken):
            other.verify([anchor])

    def test_times_never_go_back(self) -> None:
        """In the order of the log."""
        store = self.make()
        put(store, *range(20))
        times = [change.timestamp for change in store.changes()]
        assert times == sorted(times)
