"""Profilers observe: in order, apart from each other, and without a way to stop anything."""

import logging
from collections.abc import Callable
from threading import Lock, Thread
from typing import NamedTuple

import pytest

from atoll import profiler
from atoll.testing import assertions


class Happened(NamedTuple):
    type: str
    payload: int


def explode(event: profiler.Event) -> None:
    raise RuntimeError(f"no time for {event.payload}")


def test_a_profiler_hears_every_event_in_order() -> None:
    profilers, heard = profiler.Profilers[Happened](), list[Happened]()
    profilers.use(heard.append)
    for number in range(3):
        profilers.emit(Happened("happened", number))
    assert heard == [Happened("happened", number) for number in range(3)]


def test_one_that_raises_is_reported_once_and_the_others_still_hear(caplog: pytest.LogCaptureFixture) -> None:
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


def test_two_that_raise_are_reported_once_each(caplog: pytest.LogCaptureFixture) -> None:
    profilers = profiler.Profilers[Happened]()
    profilers.use(explode)
    profilers.use(lambda event: explode(event))
    for number in range(3):
        profilers.emit(Happened("happened", number))
    assert len(caplog.records) == 2


def test_a_removed_profiler_hears_no_more_and_may_be_removed_again() -> None:
    profilers, heard, other = profiler.Profilers[Happened](), list[Happened](), list[Happened]()
    remove = profilers.use(heard.append)
    profilers.use(other.append)
    profilers.emit(Happened("happened", 1))
    remove()
    remove()
    profilers.emit(Happened("happened", 2))
    assert [event.payload for event in heard] == [1]
    assert [event.payload for event in other] == [1, 2]


def test_one_registered_twice_hears_twice_and_is_removed_one_at_a_time() -> None:
    profilers, heard = profiler.Profilers[Happened](), list[Happened]()
    remove_first, remove_second = profilers.use(heard.append), profilers.use(heard.append)
    profilers.emit(Happened("happened", 1))
    remove_first()
    remove_first()
    profilers.emit(Happened("happened", 2))
    remove_second()
    profilers.emit(Happened("happened", 3))
    assert [event.payload for event in heard] == [1, 1, 2]


def test_the_default_profiler_counts_as_none() -> None:
    profilers = profiler.Profilers[Happened]()
    profilers.use(profiler.default_fn)()
    assert not profilers
    profilers.use(lambda event: None)
    assert profilers


def test_a_profiler_may_remove_itself_while_it_hears() -> None:
    profilers, heard = profiler.Profilers[Happened](), list[Happened]()
    removals: list[profiler.Remove] = []

    def once(event: Happened) -> None:
        removals[0]()
        heard.append(event)

    removals.append(profilers.use(once))
    for number in range(3):
        profilers.emit(Happened("happened", number))
    assert [event.payload for event in heard] == [0]


def test_with_mail_an_event_is_heard_when_it_is_delivered() -> None:
    mail, heard = profiler.EventQueue(), list[Happened]()
    profilers = profiler.Profilers[Happened](mail)
    profilers.use(heard.append)
    profilers.emit(Happened("happened", 1))
    assert heard == []
    mail.deliver()
    assert heard == [Happened("happened", 1)]


def test_mail_that_is_discarded_is_never_heard() -> None:
    mail, heard = profiler.EventQueue(), list[int]()
    mail.post(lambda: heard.append(1))
    mail.discard()
    mail.post(lambda: heard.append(2))
    mail.deliver()
    assert heard == [2]


def test_with_mail_and_nobody_to_hear_nothing_is_posted() -> None:
    posted = list[object]()

    class Box(profiler.EventQueue):
        def post(self, callback: Callable[[], None]) -> None:
            posted.append(callback)

    profiler.Profilers[Happened](Box()).emit(Happened("happened", 1))
    assert posted == []


def test_one_that_exits_is_reported_and_ctrl_c_passes(caplog: pytest.LogCaptureFixture) -> None:
    def leave(event: Happened) -> None:
        raise SystemExit if event.payload == 0 else KeyboardInterrupt

    profilers = profiler.Profilers[Happened]()
    profilers.use(leave)
    profilers.emit(Happened("happened", 0))
    assert len(caplog.records) == 1
    with pytest.raises(KeyboardInterrupt):
        profilers.emit(Happened("happened", 1))


def test_a_delivery_that_raises_leaves_the_mail_to_the_next(caplog: pytest.LogCaptureFixture) -> None:
    mail, heard = profiler.EventQueue(), list[int]()
    mail.post(lambda: heard.append(1 // 0))
    mail.post(lambda: heard.append(2))
    with pytest.raises(ZeroDivisionError):
        mail.deliver()
    mail.deliver()
    assert heard == [2]


def test_what_is_posted_during_a_delivery_comes_after_it() -> None:
    mail, heard = profiler.EventQueue(), list[str]()

    def first() -> None:
        mail.post(lambda: heard.append("second"))
        mail.deliver()  # from inside: it must neither wait for itself nor overtake
        heard.append("first")

    mail.post(first)
    mail.deliver()
    assert heard == ["first", "second"]


def test_mail_is_delivered_in_order_and_by_one_thread_at_a_time() -> None:
    mail, order, at_work = profiler.EventQueue(), Lock(), Lock()
    heard: list[int] = []
    posted: list[int] = []
    overlaps: list[int] = []

    def delivery(number: int) -> Callable[[], None]:
        def deliver() -> None:
            if not at_work.acquire(blocking=False):
                overlaps.append(number)
                return
            heard.append(number)
            at_work.release()

        return deliver

    def post(thread: int) -> None:
        for count in range(300):
            with order:  # as the evolver posts under its lock
                posted.append(thread * 1000 + count)
                mail.post(delivery(posted[-1]))
            mail.deliver()

    assertions.run_concurrently(post, 8)
    assert overlaps == []
    assert heard == posted
    assert len(heard) == 8 * 300


def test_profilers_come_and_go_while_events_are_heard() -> None:
    profilers, heard = profiler.Profilers[Happened](), list[Happened]()
    profilers.use(heard.append)

    def come_and_go() -> None:
        for _ in range(500):
            profilers.use(lambda event: None)()

    guest = Thread(target=come_and_go)
    guest.start()
    for number in range(500):
        profilers.emit(Happened("happened", number))
    guest.join()
    assert [event.payload for event in heard] == list(range(500))
