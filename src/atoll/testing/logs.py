"""Test suites for log sources and feedback channels."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone

from atoll import errors
from atoll.governed.evidence import feedback, logs
from atoll.testing import fakes

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


EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


class FeedbackChannelSuite(ABC):
    """Tests for a feedback channel. Subclass it and implement `make`.

    For a read-only channel set `is_read_only`, and `entity` to an entity that has feedback.
    """

    is_read_only = False
    entity = "carrier/7 日本"

    @abstractmethod
    def make(self) -> feedback.FeedbackChannel:
        """Returns a new channel, empty unless it is read-only."""

    def make_filled(self) -> feedback.FeedbackChannel:
        """Returns a channel with feedback on `entity`."""
        channel = self.make()
        if not self.is_read_only:
            for value, metric in enumerate(("cost", "cost_all", "cost", "on_time")):
                channel.report(self.entity, metric, value)
        return channel

    def test_query_returns_feedback_oldest_first(self) -> None:
        """Repeated queries are equal and sorted by time."""
        channel = self.make_filled()
        records = list(channel.query(self.entity, EARLIEST))
        assert len(records) >= 2
        assert [record.timestamp for record in records] == sorted(record.timestamp for record in records)
        assert {record.entity for record in records} == {self.entity}
        assert list(channel.query(self.entity, EARLIEST)) == records

    def test_timestamps_are_utc(self) -> None:
        """Stored times have no offset."""
        records = self.make_filled().query(self.entity, EARLIEST)
        assert {record.timestamp.utcoffset() for record in records} == {timedelta(0)}

    def test_since_is_inclusive(self) -> None:
        """A report at exactly `since` is included."""
        channel = self.make_filled()
        records = list(channel.query(self.entity, EARLIEST))
        for since in {record.timestamp for record in records}:
            included = [record for record in records if record.timestamp >= since]
            later = [record for record in records if record.timestamp > since]
            assert list(channel.query(self.entity, since)) == included
            assert list(channel.query(self.entity, since + TICK)) == later

    def test_since_accepts_any_time_zone(self) -> None:
        """Equal instants in different zones are equal bounds."""
        channel = self.make_filled()
        first = channel.query(self.entity, EARLIEST)[0].timestamp
        shifted = first.astimezone(timezone(timedelta(hours=-7)))
        assert list(channel.query(self.entity, shifted)) == list(channel.query(self.entity, first))

    def test_metric_is_matched_exactly(self) -> None:
        """Prefixes and other case do not match."""
        channel = self.make_filled()
        records = list(channel.query(self.entity, EARLIEST))
        for metric in {record.metric for record in records}:
            expected = [record for record in records if record.metric == metric]
            assert list(channel.query(self.entity, EARLIEST, metric)) == expected
        assert list(channel.query(self.entity, EARLIEST, "unknown metric")) == []

    def test_unknown_entity_has_no_feedback(self) -> None:
        """The query returns an empty list."""
        channel = self.make_filled()
        assert list(channel.query("unknown", EARLIEST)) == []
        assert list(channel.query(self.entity[:-1], EARLIEST)) == []

    def test_empty_entity_is_refused(self) -> None:
        """The query raises `EntityRequired`."""
        channel = self.make_filled()
        with fakes.raises(feedback.EntityRequired):
            channel.query("", EARLIEST)

    def test_entities_are_listed_in_order(self) -> None:
        """Only for channels that implement `feedback.ListsEntities`."""
        channel = self.make_filled()
        if isinstance(channel, feedback.ListsEntities):
            assert self.entity in channel.list_entities()
            assert list(channel.list_entities()) == sorted(channel.list_entities())

    def test_read_only_channel_refuses_report(self) -> None:
        """A report raises and stores nothing."""
        if self.is_read_only:
            channel = self.make()
            old_records = list(channel.query(self.entity, EARLIEST))
            with fakes.raises(errors.SetupError):
                channel.report(self.entity, "cost", 1.0)
            assert list(channel.query(self.entity, EARLIEST)) == old_records

    def test_report_round_trips(self) -> None:
        """All fields are stored."""
        if not self.is_read_only:
            channel, observed_at = self.make(), datetime(2020, 1, 1, tzinfo=UTC)
            meta = {"note": ["日本", 1.5, None]}
            record = channel.report("e", "m", 2, 0.5, meta, decision_id="d7", observed_at=observed_at)
            assert list(channel.query("e", EARLIEST)) == [record]
            fields = (record.value, record.confidence, record.meta, record.decision_id, record.observed_at)
            assert fields == (2.0, 0.5, meta, "d7", observed_at)

    def test_timestamp_cannot_be_backdated(self) -> None:
        """The channel sets the timestamp; `observed_at` is stored separately."""
        if not self.is_read_only:
            channel, observed_at = self.make(), datetime(1999, 1, 1, tzinfo=UTC)
            record = channel.report("e", "m", 1.0, observed_at=observed_at)
            assert record.timestamp > observed_at
            assert list(channel.query("e", observed_at + TICK)) == [record]

    def test_invalid_report_is_refused(self) -> None:
        """An empty entity, an empty metric and a non-finite number are refused."""
        if self.is_read_only:
            return
        channel = self.make()
        with fakes.raises(feedback.EntityRequired):
            channel.report("", "m", 1.0)
        with fakes.raises(feedback.MetricRequired):
            channel.report("e", "", 1.0)
        for value, confidence in ((float("nan"), 1.0), (float("inf"), 1.0), (1.0, 1.5), (1.0, -0.1)):
            with fakes.raises(errors.SetupError):
                channel.report("e", "m", value, confidence)
        with fakes.raises(errors.SetupError):
            channel.report("e", "m", 1.0, meta={"x": object()})
        assert list(channel.query("e", EARLIEST)) == []

    def test_entities_with_similar_names_are_separate(self) -> None:
        """Names may have slashes, blanks and any script."""
        if not self.is_read_only:
            channel = self.make()
            names = ["a", "a/b", "a%2Fb", "A", ".", "..", "a b", "日本", "x" * 300]
            for number, name in enumerate(names):
                channel.report(name, "m", number)
            values = [[record.value for record in channel.query(name, EARLIEST)] for name in names]
            assert values == [[float(number)] for number in range(len(names))]
