"""Interrupted searches resume and end like uninterrupted ones."""

import contextlib
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from atoll import errors, store
from atoll.mind import engine, trace_mutator
from atoll.mind.tasks import generate, load, trip
from atoll.testing import FailingJournal

# Small islands with frequent migrations and resets, so that returning migrants and elites must be recovered.
SMALL: dict[str, Any] = {"num_gens": 3, "population": 10, "num_convs": 2, "reset_interval": 2, "patience": 0}
SMALL |= {"num_candidate": 2}


def reply(prompt: str) -> str:
    problem = trip.from_text("t", prompt.partition("# Task\n")[2].partition("\n\n# Form")[0])
    plan = problem.format_plan(trace_mutator.random_trace(problem.moves, Random(prompt)))
    return f"<critic>\n- too late\n</critic>\n<plan>\n{plan}\n</plan>"


def search(records: Any, model: Callable[[str], str] | None, **settings: Any) -> engine.MindResult:
    problems = [load.parse_row(row) for row in generate.generate_rows("trip", count=2, size=8, seed=4)]
    options = {**SMALL, **({"num_seq": 2} if model else {})}
    return engine.MindEvolutionEngine(problems, model, options, run_journal=records, seed=1, **settings).run()


@pytest.mark.parametrize("model", [None, reply])
@pytest.mark.parametrize("window", [1, 2])
def test_interrupted_search_ends_like_uninterrupted_one(model, window):
    counting_journal = FailingJournal(store.MemoryJournal())
    full_result = search(counting_journal, model, window=window)
    for share in (0.02, 0.6, 0.97):
        interrupted = store.MemoryJournal()
        with contextlib.suppress(errors.JournalFailed):
            search(FailingJournal(interrupted, int(share * counting_journal.num_commits)), model, window=window)
        assert search(interrupted, model, window=window) == full_result


def test_repeatedly_interrupted_search_ends_like_uninterrupted_one():
    full_result = search(store.MemoryJournal(), None)
    records = store.MemoryJournal()
    for _ in range(6):
        with contextlib.suppress(errors.JournalFailed):
            search(FailingJournal(records, 90), None)
    assert search(records, None) == full_result


def test_finished_search_resumes_to_same_result():
    records = store.MemoryJournal()
    full_result = search(records, None)
    assert search(records, None) == full_result
