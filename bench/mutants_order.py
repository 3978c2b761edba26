"""A plugin of pytest for `scripts/mutants`: quick tests first, and one that hangs is told apart from one that fails.

mutmut runs the tests that reach a mutant in no order and stops at the first that fails, so quick ones belong first.
Of a mutant that deadlocks it would wait for many times what all those tests take together.
"""

import gc
import json
import os
import signal
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

HUNG = 36  # an exit status that mutmut knows as a timeout
SHARPEST = "test_today_the_same_records_are_written"  # it compares a whole run, so it finds most changes out
LONG = 1.0  # seconds of a test that no mutant meets which quicker ones reach
TOGETHER = 45.0  # seconds for all tests of a mutant, which take a few: one whose threads never end slows them all
STATS = Path("mutmut-stats.json")  # in mutants/, where the tests run


def limit(seconds: float) -> float:
    """Returns how long a test may take which took so long when it was watched, which slows it already."""
    return 2.5 + 4 * seconds


def durations() -> Mapping[str, float]:
    """Returns what tests took; nothing while that is being found out."""
    return _read(STATS.stat().st_mtime_ns) if STATS.exists() else {}


@cache  # by the time of the file, so that a process finds what the one that it was forked from has read
def _read(changed: int) -> Mapping[str, float]:
    result: Mapping[str, float] = json.loads(STATS.read_text())["duration_by_test"]
    return result


def pytest_configure() -> None:
    """Spares every process from looking through, and so from copying, all that it was forked with."""
    gc.freeze()
    started.cache_clear()
    started()


@cache
def started() -> float:
    """Returns when the tests of this mutant began."""
    return time.monotonic()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the sharpest and then quick tests first; a mutant meets these alone, unless none of them reaches it."""
    took = durations()
    items.sort(key=lambda item: (item.name != SHARPEST, took.get(item.nodeid, 0.0)))
    if is_mutant():
        items[:] = [item for item in items if took.get(item.nodeid, 0.0) <= LONG] or items


def is_mutant() -> bool:
    """Says whether the tests meet a mutant, and are not run to see what each of them reaches."""
    return "__mutmut_" in os.environ.get("MUTANT_UNDER_TEST", "")


def pytest_timeout_set_timer(item: pytest.Item) -> bool:
    """Takes the place of pytest-timeout's own timer, which ends as a failed test does."""
    signal.signal(signal.SIGALRM, lambda *_: os._exit(HUNG))
    seconds = durations().get(item.nodeid)
    allowed = 300.0 if seconds is None else limit(seconds)
    if is_mutant():
        allowed = max(0.001, min(allowed, started() + TOGETHER - time.monotonic()))
    signal.setitimer(signal.ITIMER_REAL, allowed)
    return True


def pytest_timeout_cancel_timer(item: pytest.Item) -> bool:
    """Stops the timer."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    return True
