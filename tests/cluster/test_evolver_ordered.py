"""Ordered runs: the result depends on the seed, not on workers, timing or crashes."""

import contextlib
from typing import Any

import pytest

from atoll import control, errors, journal
from atoll.store import memory
from tests import fixtures


class CrashingJournal(memory.MemoryJournal):
    """Journal that fails at the n-th commit like a power failure: before the write or right after."""

    def __init__(self, commits: int, *, after: bool) -> None:
        super().__init__()
        self._left, self._after = commits, after

    def write(self, *records: journal.Record) -> None:
        self._left -= 1
        if self._left >= 0 or (self._left == -1 and self._after):
            super().write(*records)
        if self._left < 0:
            raise OSError("cut")


def copy_journal(records: memory.MemoryJournal) -> memory.MemoryJournal:
    copy = memory.MemoryJournal()
    copy.write(*records.read())
    return copy


def finish_run(records: memory.MemoryJournal, **options: object) -> fixtures.Bandit:
    bandit = fixtures.Bandit()
    settings = {"ordered": True, "window": 6, "learner": bandit, "iterations": 40, "seed": 5} | options
    fixtures.make_evolver(fixtures.Walker(delays=0.002, children=2), records=records, **settings).run()  # type: ignore[arg-type]
    return bandit


def test_ordered_run_is_independent_of_worker_count() -> None:
    runs = []
    for workers in (1, 2, 4, 8):
        records = memory.MemoryJournal()
        bandit = finish_run(records, num_parallel=workers)
        assert bandit.learned == list(range(1, 41))
        runs.append((fixtures.list_results(records), bandit.gains))
    assert all(run == runs[0] for run in runs)


def test_other_seed_gives_other_run() -> None:
    first, second = memory.MemoryJournal(), memory.MemoryJournal()
    finish_run(first)
    finish_run(second, seed=6)
    assert fixtures.list_results(first) != fixtures.list_results(second)


def test_single_unordered_worker_is_reproducible() -> None:
    first, second = memory.MemoryJournal(), memory.MemoryJournal()
    for records in (first, second):
        finish_run(records, ordered=False, window=1, num_parallel=1)
    assert list(fixtures.list_results(first)) == list(fixtures.list_results(second))


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("workers", [1, 4])
def test_crash_at_any_commit_and_resume_give_same_run(workers: int, after: bool) -> None:
    full = memory.MemoryJournal()
    bandit = finish_run(full, iterations=12)
    num_commits = 1 + 1 + 12 * 3 + 1  # initial, first issued, two evaluated and one applied per iteration, ended
    for commits in range(num_commits):
        cut = CrashingJournal(commits, after=after)
        with contextlib.suppress(errors.JournalFailed):
            finish_run(cut, iterations=12, num_parallel=workers)
        resumed = copy_journal(cut)
        again = finish_run(resumed, iterations=12, num_parallel=workers)
        assert fixtures.list_results(resumed) == fixtures.list_results(full), f"crash at commit {commits}"
        assert again.gains == bandit.gains


def test_stop_and_resume_give_same_run() -> None:
    full, parts = memory.MemoryJournal(), memory.MemoryJournal()
    finish_run(full, iterations=40)
    for _ in range(50):
        evolver = fixtures.make_evolver(
            fixtures.Walker(delays=0.002, children=2),
            records=parts,
            ordered=True,
            window=6,
            learner=fixtures.Bandit(),
            iterations=40,
            seed=5,
            num_parallel=3,
        )
        evolver.start()
        fixtures.wait_until(lambda: bool(parts.records))
        evolver.stop()
        if "budget" in evolver.reason:
            break
    finish_run(parts, iterations=40)
    assert fixtures.list_results(parts) == fixtures.list_results(full)


def test_stored_response_is_not_requested_again() -> None:
    full = memory.MemoryJournal()
    fixtures.make_evolver(
        fixtures.LLMWalker(fixtures.CountingLLM()), records=full, ordered=True, window=4, iterations=10
    ).run()
    for commits in range(2 + 10 * 4):
        model = fixtures.CountingLLM()
        cut = CrashingJournal(commits, after=True)
        with contextlib.suppress(errors.JournalFailed):
            fixtures.make_evolver(
                fixtures.LLMWalker(model), records=cut, ordered=True, window=4, iterations=10, num_parallel=3
            ).run()
        stored = {(record.step, record.data["call"]) for record in fixtures.list_records(cut, "replied")}
        resumed, second = copy_journal(cut), fixtures.CountingLLM()
        fixtures.make_evolver(
            fixtures.LLMWalker(second), records=resumed, ordered=True, window=4, iterations=10, num_parallel=3
        ).run()
        assert not stored & set(second.requests)
        assert len(stored) + len(second.requests) == 20
        assert fixtures.list_results(resumed) == fixtures.list_results(full)


def test_ordered_run_keeps_its_call_budget_and_is_independent_of_worker_count() -> None:
    results = []
    for workers in (1, 8):
        records, model = memory.MemoryJournal(), fixtures.CountingLLM()
        options: dict[str, Any] = {"ordered": True, "window": 8, "num_parallel": workers}
        options["budget"] = control.Budget(calls=13)
        evolver = fixtures.make_evolver(fixtures.LLMWalker(model), records=records, **options)
        evolver.run()
        assert (len(model.requests), evolver.usage.cost.calls, evolver.reason) == (13, 13, "budget of 13 calls used")
        results.append(fixtures.list_results(records))
    issued = fixtures.list_records(records, "begun")
    assert [record.data["max_calls"] for record in issued] == [2, 2, 2, 2, 2, 2, 1]
    assert results[0] == results[1]
