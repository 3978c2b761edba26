"""Fake clock."""

import pytest

from atoll import errors
from atoll.testing import FakeClock, fakes


def test_clock_changes_only_by_advance() -> None:
    clock = FakeClock(5.0)
    assert [clock(), clock()] == [5.0, 5.0]
    clock.advance(2.5)
    assert clock() == 7.5


def test_clock_cannot_go_back() -> None:
    with pytest.raises(errors.SetupError, match="cannot go back"):
        FakeClock().advance(-1.0)


def test_concurrent_advances_add_up() -> None:
    clock = FakeClock()

    def advance(thread: int) -> None:
        for _ in range(200):
            clock.advance(1.0)

    fakes.run_concurrently(advance)
    assert clock() == 1600.0
