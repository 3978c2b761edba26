"""Pytest plugin for `scripts/mutants`: runs quick tests first and ends hanging tests with a separate exit status.

mutmut runs the tests that reach a mutant in any order and stops at the first failure, so quick tests should run first.
For a mutant that deadlocks, mutmut would wait many times the total duration of these tests.
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
SHARPEST = "test_today_the_same_records_are_written"  # compares a full run, so it detects most changes
LONG = 1.0  # slower tests are skipped if quicker ones reach the mutant
TOGETHER = 45.0  # limit of all tests of a mutant, which usually take a few seconds
STATS = Path("mutmut-stats.json")  # in mutants/, where the tests run


def limit(seconds: float) -> float:
    """Returns the time limit of a test from its duration under observation."""
    return 2.5 + 4 * seconds


def durations() -> Mapping[str, float]:
    """Returns the durations of the tests; empty while they are measured."""
    return _read(STATS.stat().st_mtime_ns) if STATS.exists() else {}


@cache  # keyed by file time, so that forked processes reuse it
def _read(changed: int) -> Mapping[str, float]:
    result: Mapping[str, float] = json.loads(STATS.read_text())["duration_by_test"]
    return result


def pytest_configure() -> None:
    """Freezes existing objects, so that forked processes do not scan and copy them."""
    gc.freeze()
    started.cache_clear()
    started()


@cache
def started() -> float:
    """Returns when the tests of this mutant began."""
    return time.monotonic()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the most sensitive tests first, then quick ones. Slow tests run only if no other test reaches the mutant."""
    took = durations()
    items.sort(key=lambda item: (item.name != SHARPEST, took.get(item.nodeid, 0.0)))
    if is_mutant():
        items[:] = [item for item in items if took.get(item.nodeid, 0.0) <= LONG] or items


def is_mutant() -> bool:
    """Returns whether a mutant is tested, in contrast to the run that records which tests reach which code."""
    return "__mutmut_" in os.environ.get("MUTANT_UNDER_TEST", "")


def pytest_timeout_set_timer(item: pytest.Item) -> bool:
    """Replaces the timer of pytest-timeout, whose exit status is that of a failed test."""
    signal.signal(signal.SIGALRM, lambda *_: os._exit(HUNG))
    seconds = durations().get(item.nodeid)
    allowed = 300.0 if seconds is None else limit(seconds)
    if is_mutant():
        allowed = max(0.001, min(allowed, started() + TOGETHER - time.monotonic()))
    signal.setitimer(signal.ITIMER_REAL, allowed)
    return True


def pytest_timeout_cancel_timer(item: pytest.Item) -> bool:
    signal.setitimer(signal.ITIMER_REAL, 0)
    return True
