"""What every channel of feedback must do."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

from atoll import errors
from atoll.governed import feedback

EVER = datetime(1970, 1, 1, tzinfo=UTC)
TICK = timedelta(microseconds=1)


class FeedbackChannelSuite(ABC):
    """Subclass it, say how to make a channel, and every test runs on yours.

    A channel that only tells what it knows (`is_read_only`) names an entity of which it has feedback in `entity`.
    """

    is_read_only = False
    entity = "carrier/7 日本"

    @abstractmethod
    def make(self) -> feedback.FeedbackChannel:
        """Returns a new channel: an empty one, unless it is read only."""

    def filled(self) -> feedback.FeedbackChannel:
        """Returns a channel that has feedback of `entity`."""
        channel = self.make()
        if not self.is_read_only:
            for number, metric in enumerate(("cost", "cost_all", "cost", "on_time")):
                channel.report(self.entity, metric, number)
        return channel

    def test_feedback_comes_oldest_first_and_the_same_each_time(self) -> None:
        """Two queries of the same are equal, and sorted by time."""
        channel = self.filled()
        found = list(channel.query(self.entity, EVER))
        assert len(found) >= 2
        assert [each.timestamp for each in found] == sorted(each.timestamp for each in found)
        assert {each.entity for each in found} == {self.entity}
        assert list(channel.query(self.entity, EVER)) == found

    def test_stamps_are_in_utc(self) -> None:
        """Whatever zone somebody reports from."""
        assert all(each.timestamp.utcoffset() == timedelta(0) for each in self.filled().query(self.entity, EVER))

    def test_since_is_included_and_nothing_before_it(self) -> None:
        """What was reported at the very moment counts."""
        channel = self.filled()
        found = list(channel.query(self.entity, EVER))
        for since in {each.timestamp for each in found}:
            assert list(channel.query(self.entity, since)) == [each for each in found if each.timestamp >= since]
            assert list(channel.query(self.entity, since + TICK)) == [each for each in found if each.timestamp > since]

    def test_a_moment_of_another_zone_is_the_same_moment(self) -> None:
        """A bound is a moment, not the text of one."""
        channel = self.filled()
        first = channel.query(self.entity, EVER)[0].timestamp
        there = first.astimezone(timezone(timedelta(hours=-7)))
        assert list(channel.query(self.entity, there)) == list(channel.query(self.entity, first))

    def test_a_metric_is_matched_to_the_letter_and_none_means_all(self) -> None:
        """No prefix, no other case."""
        channel = self.filled()
        found = list(channel.query(self.entity, EVER))
        for metric in {each.metric for each in found}:
            assert list(channel.query(self.entity, EVER, metric)) == [each for each in found if each.metric == metric]
        assert list(channel.query(self.entity, EVER, "nothing of the kind")) == []

    def test_an_unknown_entity_has_no_feedback_and_is_no_mistake(self) -> None:
        """It is an empty answer."""
        channel = self.filled()
        assert list(channel.query("nobody", EVER)) == []
        assert list(channel.query(self.entity[:-1], EVER)) == []

    def test_to_ask_about_nobody_is_refused(self) -> None:
        """`EntityRequired`."""
        channel = self.filled()
        _refused(feedback.EntityRequired, lambda: channel.query("", EVER))

    def test_a_channel_that_knows_whose_feedback_it_has_names_them_sorted(self) -> None:
        """Of `feedback.Listed` alone."""
        channel = self.filled()
        if isinstance(channel, feedback.Listed):
            assert self.entity in channel.entities()
            assert list(channel.entities()) == sorted(channel.entities())

    def test_what_is_read_only_takes_nothing_and_says_so(self) -> None:
        """A report raises, and nothing is kept."""
        if self.is_read_only:
            channel = self.make()
            before = list(channel.query(self.entity, EVER))
            _refused(errors.SetupError, lambda: channel.report(self.entity, "cost", 1.0))
            assert list(channel.query(self.entity, EVER)) == before

    def test_what_was_reported_comes_back_as_it_was_returned(self) -> None:
        """With everything that was said of it."""
        if not self.is_read_only:
            channel, late = self.make(), datetime(2020, 1, 1, tzinfo=UTC)
            meta = {"note": ["日本", 1.5, None]}
            made = channel.report("e", "m", 2, 0.5, meta, decision_id="d7", observed_at=late)
            assert list(channel.query("e", EVER)) == [made]
            told = (made.value, made.confidence, made.meta, made.decision_id, made.observed_at)
            assert told == (2.0, 0.5, meta, "d7", late)

    def test_nobody_can_back_date(self) -> None:
        """The channel stamps what it takes; a time that somebody gives is not its own."""
        if not self.is_read_only:
            channel, then = self.make(), datetime(1999, 1, 1, tzinfo=UTC)
            made = channel.report("e", "m", 1.0, observed_at=then)
            assert made.timestamp > then
            assert list(channel.query("e", then + TICK)) == [made]

    def test_what_is_no_measurement_is_refused_and_leaves_nothing(self) -> None:
        """No name, no entity, or no finite number."""
        if self.is_read_only:
            return
        channel = self.make()
        _refused(feedback.EntityRequired, lambda: channel.report("", "m", 1.0))
        _refused(feedback.MetricRequired, lambda: channel.report("e", "", 1.0))
        for value, confidence in ((float("nan"), 1.0), (float("inf"), 1.0), (1.0, 1.5), (1.0, -0.1)):
            _refused(errors.SetupError, partial(channel.report, "e", "m", value, confidence))
        _refused(errors.SetupError, lambda: channel.report("e", "m", 1.0, meta={"x": object()}))
        assert list(channel.query("e", EVER)) == []

    def test_entities_are_kept_apart_whatever_they_are_called(self) -> None:
        """Slashes, blanks and other alphabets too."""
        if not self.is_read_only:
            channel = self.make()
            names = ["a", "a/b", "a%2Fb", "A", ".", "..", "a b", "日本", "x" * 300]
            for number, name in enumerate(names):
                channel.report(name, "m", number)
            assert [[each.value for each in channel.query(name, EVER)] for name in names] == [
                [float(number)] for number in range(len(names))
            ]


def _refused(kind: type[Exception], call: Callable[[], Any]) -> None:
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")
