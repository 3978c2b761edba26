"""Searches for plans that are cut anywhere and go on: they end like one that was not."""

import contextlib
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from atoll import errors, store
from atoll.mind import engine, trace_mutator
from atoll.mind.tasks import generate, load, trip
from atoll.testing import FailingJournal

# Small islands that meet and are emptied often: who leaves, comes home and founds anew must be found again.
SMALL: dict[str, Any] = {"num_gens": 4, "population": 10, "num_convs": 2, "reset_interval": 2, "patience": 0}
SMALL |= {"num_candidate": 2}


def reply(prompt: str) -> str:
    problem = trip.from_text("t", prompt.partition("# Task\n")[2].partition("\n\n# Form")[0])
    made = problem.format_plan(trace_mutator.random_trace(problem.moves, Random(prompt)))
    return f"<critic>\n- too late\n</critic>\n<plan>\n{made}\n</plan>"


def search(records: Any, model: Callable[[str], str] | None, **how: Any) -> engine.MindResult:
    problems = [load.parse_row(row) for row in generate.generate_rows("trip", count=2, size=8, seed=4)]
    options = {**SMALL, **({"num_seq": 2} if model else {})}
    return engine.MindEvolutionEngine(problems, model, options, run_journal=records, seed=1, **how).run()


@pytest.mark.parametrize("model", [None, reply])
@pytest.mark.parametrize("window", [1, 2])
def test_a_search_that_was_cut_anywhere_ends_like_one_that_was_not(model, window):
    counted = FailingJournal(store.MemoryJournal())
    whole = search(counted, model, window=window)
    for share in (0.02, 0.4, 0.7, 0.97):
        cut = store.MemoryJournal()
        with contextlib.suppress(errors.JournalFailed):
            search(FailingJournal(cut, int(share * counted.num_commits)), model, window=window)
        assert search(cut, model, window=window) == whole


def test_a_search_that_was_cut_again_and_again_ends_like_one_that_was_not():
    whole = search(store.MemoryJournal(), None)
    records = store.MemoryJournal()
    for _ in range(8):
        with contextlib.suppress(errors.JournalFailed):
            search(FailingJournal(records, 90), None)
    assert search(records, None) == whole


def test_a_search_that_is_over_goes_on_to_the_same_end():
    records = store.MemoryJournal()
    whole = search(records, None)
    assert search(records, None) == whole
