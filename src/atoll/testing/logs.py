"""Test suite for log sources."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone

from atoll.governed.evidence import logs

ALL_TIME = (datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC))
START = datetime(2026, 4, 18, 23, 59, 50, tzinfo=UTC)  # shortly before midnight, so that entries span two days
TICK = timedelta(microseconds=1)


class LogSourceSuite(ABC):
    """Tests for a log source. Subclass it and implement `make`.

    Implement `holding` for the tests with given decisions; without it they do nothing.
    """

    @abstractmethod
    def make(self) -> logs.LogSource:
        """Returns a source with at least three decisions and two different times."""

    def holding(self, entries: Sequence[logs.LogEntry]) -> logs.LogSource | None:
        """Returns a new source with exactly these entries, or None if that is not supported."""
        return None

    def test_read_order_is_stable(self) -> None:
        """Entries are sorted by time; equal times keep the write order."""
        source = self.make()
        entries = list(source.read(*ALL_TIME))
        assert len(entries) >= 3
        assert len({entry.timestamp for entry in entries}) >= 2
        assert list(source.read(*ALL_TIME)) == entries

    def test_timestamps_are_utc(self) -> None:
        """Stored times have no offset."""
        assert all(entry.timestamp.utcoffset() == timedelta(0) for entry in self.make().read(*ALL_TIME))

    def test_bounds_are_inclusive(self) -> None:
        """Entries at exactly `since` or `until` are included."""
        source = self.make()
        entries = list(source.read(*ALL_TIME))
        for since in {entry.timestamp for entry in entries}:
            for until in {entry.timestamp for entry in entries}:
                expected = [entry for entry in entries if since <= entry.timestamp <= until]
                assert list(source.read(since, until)) == expected

    def test_bounds_are_exact_to_the_microsecond(self) -> None:
        """Entries one microsecond outside are excluded."""
        source = self.make()
        times = sorted(entry.timestamp for entry in source.read(*ALL_TIME))
        assert all(entry.timestamp > times[0] for entry in source.read(times[0] + TICK, ALL_TIME[1]))
        assert all(entry.timestamp < times[-1] for entry in source.read(ALL_TIME[0], times[-1] - TICK))

    def test_reversed_window_is_empty(self) -> None:
        """A window that ends before it starts does not raise."""
        assert list(self.make().read(ALL_TIME[1], ALL_TIME[0])) == []

    def test_bounds_accept_any_time_zone_and_naive_means_utc(self) -> None:
        """Equal instants in different zones are equal bounds."""
        source = self.make()
        first = min(entry.timestamp for entry in source.read(*ALL_TIME))
        expected = list(source.read(first, first))
        shifted = first.astimezone(timezone(timedelta(hours=5)))
        assert list(source.read(shifted, shifted)) == expected
        naive = first.replace(tzinfo=None)
        assert list(source.read(naive, naive)) == expected

    def test_concurrent_reads_are_independent(self) -> None:
        """Each reader has its own position."""
        source = self.make()
        first_reader, second_reader = source.read(*ALL_TIME), source.read(*ALL_TIME)
        assert [pair[0] for pair in zip(first_reader, second_reader, strict=True)] == list(source.read(*ALL_TIME))

    def test_read_can_be_abandoned(self) -> None:
        """The next read starts from the beginning."""
        source = self.make()
        entries = list(source.read(*ALL_TIME))
        assert next(iter(source.read(*ALL_TIME))) == entries[0]
        assert list(source.read(*ALL_TIME)) == entries

    def test_resumable_source_resumes_after_any_position(self) -> None:
        """Only for `logs.Resumable`: entries are neither repeated nor lost."""
        source = self.make()
        if not isinstance(source, logs.Resumable):
            return
        entries = list(source.read(*ALL_TIME))
        for count in range(1, len(entries) + 1):
            reader = source.open_reader(*ALL_TIME)
            for _ in zip(range(count), reader, strict=False):
                pass
            assert list(source.open_reader(*ALL_TIME, after=reader.position)) == entries[count:]

    def test_entries_round_trip(self) -> None:
        """Entries may have any text, lists, null and all optional fields."""
        meta = {"text": '日本\n"\\', "list": [1, 2.5, None, True]}
        full_entry = logs.LogEntry(START, "d1", "carrier/7", {"deep": [{}]}, meta, "left", 0.25, "v7")
        minimal_entry = logs.LogEntry(START)
        source = self.holding([full_entry, minimal_entry])
        assert source is None or list(source.read(*ALL_TIME)) == [full_entry, minimal_entry]

    def test_entries_with_equal_timestamps_keep_their_order(self) -> None:
        """The order is also kept across midnight."""
        interval = timedelta(seconds=1)
        expected = [logs.LogEntry(START + interval * (index // 5), f"d{index}", "e") for index in range(100)]
        source = self.holding(expected)
        assert source is None or list(source.read(*ALL_TIME)) == expected

    def test_empty_source_yields_nothing(self) -> None:
        """An empty source has no entries."""
        source = self.holding([])
        assert source is None or list(source.read(*ALL_TIME)) == []
