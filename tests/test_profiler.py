"""Profilers receive events in order, independently, and cannot stop a run."""

import logging
from collections.abc import Callable
from threading import Lock, Thread
from typing import NamedTuple

import pytest

from atoll import profiler
from atoll.testing import fakes


class Happened(NamedTuple):
    type: str
    payload: int


def explode(event: profiler.Event) -> None:
    raise RuntimeError(f"no time for {event.payload}")


def test_profiler_receives_events_in_order() -> None:
    profilers, events = profiler.Profilers[Happened](), list[Happened]()
    profilers.use(events.append)
    for number in range(3):
        profilers.emit(Happened("happened", number))
    assert events == [Happened("happened", number) for number in range(3)]


def test_profiler_exception_is_reported_once_and_others_receive_events(caplog: pytest.LogCaptureFixture) -> None:
    profilers, before, after = profiler.Profilers[Happened](), list[Happened](), list[Happened]()
    for fn in (before.append, explode, after.append):
        profilers.use(fn)
    with caplog.at_level(logging.DEBUG):
        for number in range(5):
            profilers.emit(Happened("happened", number))
    assert len(before) == len(after) == 5
    (report,) = caplog.records
    assert report.getMessage() == "A profiler failed on event happened. This is logged once; the run continues."
    assert report.exc_info is not None
    assert str(report.exc_info[1]) == "no time for 0"


def test_two_profiler_exceptions_are_reported_once_each(caplog: pytest.LogCaptureFixture) -> None:
    profilers = profiler.Profilers[Happened]()
    profilers.use(explode)
    profilers.use(lambda event: explode(event))
    for number in range(3):
        profilers.emit(Happened("happened", number))
    assert len(caplog.records) == 2


def test_removed_profiler_receives_nothing() -> None:
    profilers, events, other = profiler.Profilers[Happened](), list[Happened](), list[Happened]()
    remove = profilers.use(events.append)
    profilers.use(other.append)
    profilers.emit(Happened("happened", 1))
    remove()
    remove()
    profilers.emit(Happened("happened", 2))
    assert [event.payload for event in events] == [1]
    assert [event.payload for event in other] == [1, 2]


def test_profiler_registered_twice_receives_events_twice() -> None:
    profilers, events = profiler.Profilers[Happened](), list[Happened]()
    remove_first, remove_second = profilers.use(events.append), profilers.use(events.append)
    profilers.emit(Happened("happened", 1))
    remove_first()
    remove_first()
    profilers.emit(Happened("happened", 2))
    remove_second()
    profilers.emit(Happened("happened", 3))
    assert [event.payload for event in events] == [1, 1, 2]


def test_default_profiler_counts_as_none() -> None:
    profilers = profiler.Profilers[Happened]()
    profilers.use(profiler.default_fn)()
    assert not profilers
    profilers.use(lambda event: None)
    assert profilers


def test_profiler_can_remove_itself_during_event() -> None:
    profilers, events = profiler.Profilers[Happened](), list[Happened]()
    removals: list[profiler.Remove] = []

    def once(event: Happened) -> None:
        removals[0]()
        events.append(event)

    removals.append(profilers.use(once))
    for number in range(3):
        profilers.emit(Happened("happened", number))
    assert [event.payload for event in events] == [0]


def test_queued_event_is_received_on_delivery() -> None:
    mail, events = profiler.EventQueue(), list[Happened]()
    profilers = profiler.Profilers[Happened](mail)
    profilers.use(events.append)
    profilers.emit(Happened("happened", 1))
    assert events == []
    mail.deliver()
    assert events == [Happened("happened", 1)]


def test_discarded_events_are_never_received() -> None:
    mail, events = profiler.EventQueue(), list[int]()
    mail.post(lambda: events.append(1))
    mail.discard()
    mail.post(lambda: events.append(2))
    mail.deliver()
    assert events == [2]


def test_event_queue_without_profilers_stays_empty() -> None:
    posted = list[object]()

    class Box(profiler.EventQueue):
        def post(self, callback: Callable[[], None]) -> None:
            posted.append(callback)

    profiler.Profilers[Happened](Box()).emit(Happened("happened", 1))
    assert posted == []


def test_system_exit_of_profiler_is_reported_and_ctrl_c_passes(caplog: pytest.LogCaptureFixture) -> None:
    def leave(event: Happened) -> None:
        raise SystemExit if event.payload == 0 else KeyboardInterrupt

    profilers = profiler.Profilers[Happened]()
    profilers.use(leave)
    profilers.emit(Happened("happened", 0))
    assert len(caplog.records) == 1
    with pytest.raises(KeyboardInterrupt):
        profilers.emit(Happened("happened", 1))


def test_failed_delivery_keeps_remaining_events(caplog: pytest.LogCaptureFixture) -> None:
    mail, events = profiler.EventQueue(), list[int]()
    mail.post(lambda: events.append(1 // 0))
    mail.post(lambda: events.append(2))
    with pytest.raises(ZeroDivisionError):
        mail.deliver()
    mail.deliver()
    assert events == [2]


def test_event_queued_during_delivery_comes_after_it() -> None:
    mail, events = profiler.EventQueue(), list[str]()

    def first() -> None:
        mail.post(lambda: events.append("second"))
        mail.deliver()  # from inside a delivery: it must neither deadlock nor overtake
        events.append("first")

    mail.post(first)
    mail.deliver()
    assert events == ["first", "second"]


def test_event_queue_delivers_in_order_by_one_thread() -> None:
    mail, order, at_work = profiler.EventQueue(), Lock(), Lock()
    events: list[int] = []
    posted: list[int] = []
    overlaps: list[int] = []

    def delivery(number: int) -> Callable[[], None]:
        def deliver() -> None:
            if not at_work.acquire(blocking=False):
                overlaps.append(number)
                return
            events.append(number)
            at_work.release()

        return deliver

    def post(thread: int) -> None:
        for count in range(300):
            with order:  # as the evolver does under its lock
                posted.append(thread * 1000 + count)
                mail.post(delivery(posted[-1]))
            mail.deliver()

    fakes.run_concurrently(post, 8)
    assert overlaps == []
    assert events == posted
    assert len(events) == 8 * 300


def test_profilers_can_change_during_events() -> None:
    profilers, events = profiler.Profilers[Happened](), list[Happened]()
    profilers.use(events.append)

    def come_and_go() -> None:
        for _ in range(500):
            profilers.use(lambda event: None)()

    guest = Thread(target=come_and_go)
    guest.start()
    for number in range(500):
        profilers.emit(Happened("happened", number))
    guest.join()
    assert [event.payload for event in events] == list(range(500))
