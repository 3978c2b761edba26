"""Tests of watches, reads of the past and the audit log."""

import threading
import time
from datetime import timedelta

from atoll import governed
from atoll.governed import errors as governed_errors
from atoll.testing import fakes
from atoll.testing.parameters.values import ParameterStoreTests, collect_changes, get_change_fields, set_values

WATCH_TIMEOUT_SECONDS = 5.0


class WatchingTests(ParameterStoreTests):
    """G24 to G26; section 4.1 of watches, as-of reads and the chain."""

    def test_watch_yields_changes_after_it_was_opened(self) -> None:
        """It has every change after the call and ends after the timeout. G24."""
        store = self.make()
        set_values(store, "before")
        watch = store.watch("key", timeout=0.05)
        set_values(store, "one")
        set_values(store, "elsewhere", key="other")
        set_values(store, "two")
        assert [change.value for change in collect_changes(watch)] == ["one", "two"]

    def test_watch_without_prefix_yields_all_keys(self) -> None:
        """Changes of all keys come in order. G24."""
        store = self.make()
        watch = store.watch(timeout=0.05)
        for key in ("b", "a", "b"):
            set_values(store, 1, key=key)
        assert [(change.key, change.version) for change in collect_changes(watch)] == [("b", 1), ("a", 1), ("b", 2)]

    def test_watch_yields_full_log_entries(self) -> None:
        """Watchers do not need the history. G26."""
        store = self.make()
        watch = store.watch(timeout=0.05)
        set_values(store, 1)
        store.lock("key", "frozen", author="ann")
        store.rollback("key", 1, "again", author="bob")
        store.note("key", "approve", [1], "fine", author="ann")
        watched_changes = collect_changes(watch)
        assert [get_change_fields(change)[:4] for change in watched_changes] == [
            ("set", "key", 1, 1), ("lock", "key", 1, None), ("rollback", "key", 2, 1), ("approve", "key", 0, [1])
        ]  # fmt: skip
        assert watched_changes == list(store.changes())

    def test_watch_resumes_after_given_change(self) -> None:
        """The watch continues after this change number; 0 means all."""
        store = self.make()
        set_values(store, "one", "two", "three")
        assert [change.value for change in collect_changes(store.watch(after=0, timeout=0.0))] == [
            "one",
            "two",
            "three",
        ]
        assert [change.value for change in collect_changes(store.watch(after=2, timeout=0.0))] == ["three"]
        assert collect_changes(store.watch(after=3, timeout=0.0)) == []

    def test_resumed_watch_yields_all_missed_changes(self) -> None:
        """Changes before the start of the watch never cause a gap."""
        store = self.make()
        set_values(store, *range(100))
        assert [change.seq for change in collect_changes(store.watch(after=10, timeout=0.0))] == list(range(11, 101))

    def test_slow_watcher_gets_gap(self) -> None:
        """The newest 16 changes are buffered; a gap names the missed ones, which can be read. G24."""
        store = self.make()
        watch = store.watch("key", timeout=0.05)
        set_values(store, *range(40))
        gap, *remaining = list(watch)
        assert gap == governed.Gap(1, 24)
        assert [item.seq for item in remaining if isinstance(item, governed.Change)] == list(range(25, 41))
        missed = list(store.changes("key", after=gap[0] - 1, end=gap[1]))
        assert [change.value for change in missed] == list(range(24))

    def test_watch_buffer_size_can_be_set(self) -> None:
        """None means no limit."""
        store = self.make()
        watches = [store.watch(timeout=0.05, buffer=buffer) for buffer in (None, 3)]
        set_values(store, *range(40))
        assert len(collect_changes(watches[0])) == 40
        assert next(watches[1]) == governed.Gap(1, 37)
        assert len(collect_changes(watches[1])) == 3

    def test_changes_of_other_keys_create_no_gap(self) -> None:
        """Only changes with the watched prefix count."""
        store = self.make()
        watch = store.watch("key", timeout=0.05)
        set_values(store, 1)
        set_values(store, *range(40), key="other")
        assert [change.value for change in collect_changes(watch)] == [1]

    def test_idle_watchers_do_not_block_writers(self) -> None:
        """Writers stay fast. G24."""
        store = self.make()
        watches = [store.watch() for _ in range(8)]
        set_values(store, *range(50))
        assert store.get("key").version == 50
        assert len(watches) == 8

    def test_watch_wakes_up_for_change_of_another_thread(self) -> None:
        """It waits for changes of other threads and yields them at once."""
        store = self.make()
        watch = store.watch("key", timeout=WATCH_TIMEOUT_SECONDS)
        watched_changes: list[object] = []
        watcher = threading.Thread(target=lambda: watched_changes.extend(next(watch) for _ in range(3)))
        watcher.start()
        for value in range(3):
            time.sleep(0.01)
            set_values(store, value)
        watcher.join(WATCH_TIMEOUT_SECONDS)
        assert watched_changes == list(store.changes())

    def test_watch_yields_changes_of_another_process(self) -> None:
        """The change is made through a reopened store."""
        store = self.make()
        other_store = self.reopen(store)
        if other_store is None:
            return
        watch = store.watch("key", timeout=WATCH_TIMEOUT_SECONDS)
        set_values(other_store, "elsewhere")
        change = next(watch)
        assert isinstance(change, governed.Change)
        assert change.value == "elsewhere"

    def test_watch_without_changes_times_out(self) -> None:
        """It ends after about its timeout."""
        start_time = time.monotonic()
        assert list(self.make().watch(timeout=0.05)) == []
        assert 0.04 < time.monotonic() - start_time < WATCH_TIMEOUT_SECONDS

    def test_change_numbers_start_at_one_without_gaps(self) -> None:
        """All kinds and keys share one sequence."""
        store = self.make()
        set_values(store, 1)
        set_values(store, 1, key="other")
        store.lock("key", "frozen", author="ann")
        store.note("key", "approve", None, "fine", author="ann")
        assert [change.seq for change in store.changes()] == [1, 2, 3, 4]
        assert [change.seq for change in store.changes("other")] == [2]
        assert [change.seq for change in store.changes(after=1, end=3)] == [2, 3]

    def test_value_can_be_read_as_of_change_number(self) -> None:
        """The number counts all changes; before the first version the key is not found."""
        store = self.make()
        set_values(store, "other", key="other")
        set_values(store, "one", "two")
        assert store.get("key", as_of=2) == ("one", 1)
        assert store.get("key", as_of=3) == store.get("key", as_of=99) == ("two", 2)
        for change_number in (0, 1):
            with fakes.raises(governed_errors.VersionNotFound):
                store.get("key", as_of=change_number)

    def test_value_can_be_read_as_of_time(self) -> None:
        """The time is that of the change."""
        store = self.make()
        set_values(store, "one")
        time.sleep(0.002)
        set_values(store, "two")
        first, second = (change.timestamp for change in store.history("key"))
        assert store.get("key", as_of=first) == ("one", 1)
        assert store.get("key", as_of=second - timedelta(microseconds=1)) == ("one", 1)
        assert store.get("key", as_of=second) == ("two", 2)
        with fakes.raises(governed_errors.VersionNotFound):
            store.get("key", as_of=first - timedelta(days=1))

    def test_alias_can_be_read_as_of_change_number(self) -> None:
        """Earlier targets of an alias can be read."""
        store = self.make()
        set_values(store, "one", "two")
        store.alias("key", "production", 1, "tried", author="ann")
        store.alias("key", "production", 2, "better", author="ann")
        assert store.get("key@production", as_of=3) == ("one", 1)
        assert store.get("key@production") == ("two", 2)
        with fakes.raises(governed_errors.VersionNotFound):
            store.get("key@production", as_of=2)

    def test_snapshot_has_all_keys_as_of_one_change(self) -> None:
        """Snapshots may have a prefix and an `as_of`."""
        store = self.make()
        set_values(store, 1, key="a/1")
        set_values(store, 2, key="b")
        set_values(store, 3, key="a/1")
        snapshot = store.snapshot()
        assert (snapshot.seq, dict(snapshot.values)) == (3, {"a/1": (3, 2), "b": (2, 1)})
        assert dict(store.snapshot(as_of=2).values) == {"a/1": (1, 1), "b": (2, 1)}
        assert dict(store.snapshot("a/").values) == {"a/1": (3, 2)}
        assert dict(store.snapshot(as_of=0).values) == {}

    def test_audit_log_verifies(self) -> None:
        """An empty log verifies too; the report has the last number and hash."""
        store = self.make()
        assert store.verify().seq == 0
        set_values(store, 1, {"long": "x" * 20_000}, None)
        store.lock("key", "frozen\n日本", author="ann")
        store.rollback("key", 1, "again", author="ann")
        store.note("key", "approve", {"a": [1]}, "fine", author="bob")
        report = store.verify()
        assert (report.seq, report.hash) == (6, list(store.changes())[-1].hash)

    def test_anchor_stays_valid_when_log_grows(self) -> None:
        """Another log fails the check."""
        store, other_store = self.make(), governed.MemoryParameters()
        set_values(store, 1)
        anchor = store.anchor(b"secret")
        anchor.check_signature(b"secret")
        set_values(store, 2)
        assert store.verify([anchor]).num_anchors == 1
        with fakes.raises(governed_errors.ChainBroken):
            anchor.check_signature(b"guess")
        with fakes.raises(governed_errors.ChainBroken):
            other_store.verify([anchor])

    def test_timestamps_never_decrease(self) -> None:
        """Times increase in log order."""
        store = self.make()
        set_values(store, *range(20))
        times = [change.timestamp for change in store.changes()]
        assert times == sorted(times)
