"""A fake clock moves when it is told to."""

import pytest

from atoll import errors
from atoll.testing import FakeClock, assertions


def test_it_stands_still_until_it_is_moved() -> None:
    clock = FakeClock(5.0)
    assert [clock(), clock()] == [5.0, 5.0]
    clock.advance(2.5)
    assert clock() == 7.5


def test_it_never_goes_back() -> None:
    with pytest.raises(errors.SetupError, match="cannot go back"):
        FakeClock().advance(-1.0)


def test_moves_from_several_threads_add_up() -> None:
    clock = FakeClock()

    def move(thread: int) -> None:
        for _ in range(200):
            clock.advance(1.0)

    assertions.run_concurrently(move)
    assert clock() == 1600.0
