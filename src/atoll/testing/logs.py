"""What every source of logged decisions must do."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone

from atoll.governed import logs

EVER = (datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC))
START = datetime(2026, 4, 18, 23, 59, 50, tzinfo=UTC)  # so that some are of another day
TICK = timedelta(microseconds=1)


class LogSourceSuite(ABC):
    """Subclass it, say how to make a source with some decisions in it, and every test runs on yours.

    `holding` says how a source comes to hold certain decisions; without it, those tests find nothing to do.
    """

    @abstractmethod
    def make(self) -> logs.LogSource:
        """Returns a source with at least three decisions, of which two have different times."""

    def holding(self, entries: Sequence[logs.LogEntry]) -> logs.LogSource | None:
        """Returns a new source that holds these and no others; None, if none can be told what to hold."""
        return None

    def test_a_source_yields_the_same_in_the_same_order_each_time(self) -> None:
        """By time, and as written where times are equal."""
        source = self.make()
        found = list(source.read(*EVER))
        assert len(found) >= 3
        assert len({each.timestamp for each in found}) >= 2
        assert list(source.read(*EVER)) == found

    def test_times_are_in_utc(self) -> None:
        """Whatever zone they were written in."""
        assert all(each.timestamp.utcoffset() == timedelta(0) for each in self.make().read(*EVER))

    def test_both_bounds_are_included_and_nothing_beyond_them(self) -> None:
        """A window from a decision to itself holds that decision."""
        source = self.make()
        found = list(source.read(*EVER))
        for since in {each.timestamp for each in found}:
            for until in {each.timestamp for each in found}:
                wanted = [each for each in found if since <= each.timestamp <= until]
                assert list(source.read(since, until)) == wanted

    def test_a_moment_just_beside_a_decision_leaves_it_out(self) -> None:
        """To the microsecond."""
        source = self.make()
        times = sorted(each.timestamp for each in source.read(*EVER))
        assert all(each.timestamp > times[0] for each in source.read(times[0] + TICK, EVER[1]))
        assert all(each.timestamp < times[-1] for each in source.read(EVER[0], times[-1] - TICK))

    def test_a_window_that_ends_before_it_begins_is_empty(self) -> None:
        """It is no mistake."""
        assert list(self.make().read(EVER[1], EVER[0])) == []

    def test_bounds_of_another_zone_mean_the_same_moment_and_those_of_none_are_utc(self) -> None:
        """A bound is a moment."""
        source = self.make()
        first = min(each.timestamp for each in source.read(*EVER))
        wanted = list(source.read(first, first))
        there = first.astimezone(timezone(timedelta(hours=5)))
        assert list(source.read(there, there)) == wanted
        naive = first.replace(tzinfo=None)
        assert list(source.read(naive, naive)) == wanted

    def test_two_readings_do_not_disturb_each_other(self) -> None:
        """Each has a place of its own."""
        source = self.make()
        one, other = source.read(*EVER), source.read(*EVER)
        assert [pair[0] for pair in zip(one, other, strict=True)] == list(source.read(*EVER))

    def test_a_reading_may_be_left_early(self) -> None:
        """And the next one begins at the beginning."""
        source = self.make()
        found = list(source.read(*EVER))
        assert next(iter(source.read(*EVER))) == found[0]
        assert list(source.read(*EVER)) == found

    def test_a_source_that_can_goes_on_after_any_place(self) -> None:
        """Of `logs.Resumable` alone: nothing twice, nothing lost."""
        source = self.make()
        if not isinstance(source, logs.Resumable):
            return
        found = list(source.read(*EVER))
        for cut in range(1, len(found) + 1):
            reading = source.begin(*EVER)
            for _ in zip(range(cut), reading, strict=False):
                pass
            assert list(source.begin(*EVER, after=reading.place)) == found[cut:]

    def test_what_a_source_was_told_comes_back_whole(self) -> None:
        """Text of any kind, lists, nothing, and all optional fields."""
        meta = {"text": '日本\n"\\', "list": [1, 2.5, None, True]}
        full = logs.LogEntry(START, "d1", "carrier/7", {"deep": [{}]}, meta, "left", 0.25, "v7")
        bare = logs.LogEntry(START)
        source = self.holding([full, bare])
        assert source is None or list(source.read(*EVER)) == [full, bare]

    def test_decisions_of_one_moment_keep_their_order_and_days_do_not_matter(self) -> None:
        """Also across midnight."""
        step = timedelta(seconds=1)
        wanted = [logs.LogEntry(START + step * (number // 5), f"d{number}", "e") for number in range(100)]
        source = self.holding(wanted)
        assert source is None or list(source.read(*EVER)) == wanted

    def test_a_source_that_holds_nothing_yields_nothing(self) -> None:
        """A source that holds nothing yields nothing."""
        source = self.holding([])
        assert source is None or list(source.read(*EVER)) == []
