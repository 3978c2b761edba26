"""Test suite for feedback channels."""

from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta, timezone

from atoll import errors
from atoll.governed.evidence import feedback
from atoll.testing import assertions

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
TICK = timedelta(microseconds=1)


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
        with assertions.raises(feedback.EntityRequired):
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
            with assertions.raises(errors.SetupError):
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
        with assertions.raises(feedback.EntityRequired):
            channel.report("", "m", 1.0)
        with assertions.raises(feedback.MetricRequired):
            channel.report("e", "", 1.0)
        for value, confidence in ((float("nan"), 1.0), (float("inf"), 1.0), (1.0, 1.5), (1.0, -0.1)):
            with assertions.raises(errors.SetupError):
                channel.report("e", "m", value, confidence)
        with assertions.raises(errors.SetupError):
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
