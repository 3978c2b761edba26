"""Ordered runs: the same seed is the same run, whatever the workers, the timing and the cuts."""

import contextlib

import pytest

from atoll import errors, journal
from atoll.store import memory
from tests import fixtures


class Cut(memory.MemoryJournal):
    """A journal that fails at the n-th commit, as a power cut would: before it is written, or right after."""

    def __init__(self, commits: int, *, after: bool) -> None:
        super().__init__()
        self._left, self._after = commits, after

    def write(self, *records: journal.Record) -> None:
        self._left -= 1
        if self._left >= 0 or (self._left == -1 and self._after):
            super().write(*records)
        if self._left < 0:
            raise OSError("cut")


def copied(records: memory.MemoryJournal) -> memory.MemoryJournal:
    copy = memory.MemoryJournal()
    copy.write(*records.read())
    return copy


def finished(records: memory.MemoryJournal, **options: object) -> fixtures.Bandit:
    bandit = fixtures.Bandit()
    settings = {"ordered": True, "window": 6, "learner": bandit, "iterations": 40, "seed": 5} | options
    fixtures.make_evolver(fixtures.Walker(delays=0.002, children=2), records=records, **settings).run()  # type: ignore[arg-type]
    return bandit


def test_ordered_run_is_independent_of_worker_count() -> None:
    runs = []
    for workers in (1, 2, 4, 8):
        records = memory.MemoryJournal()
        bandit = finished(records, num_parallel=workers)
        assert bandit.learned == list(range(1, 41))
        runs.append((fixtures.list_results(records), bandit.gains))
    assert all(run == runs[0] for run in runs)


def test_other_seed_gives_other_run() -> None:
    first, second = memory.MemoryJournal(), memory.MemoryJournal()
    finished(first)
    finished(second, seed=6)
    assert fixtures.list_results(first) != fixtures.list_results(second)


def test_single_unordered_worker_is_reproducible() -> None:
    first, second = memory.MemoryJournal(), memory.MemoryJournal()
    for records in (first, second):
        finished(records, ordered=False, window=1, num_parallel=1)
    assert list(fixtures.list_results(first)) == list(fixtures.list_results(second))


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("workers", [1, 4])
def test_crash_at_any_commit_and_resume_give_same_run(workers: int, after: bool) -> None:
    full = memory.MemoryJournal()
    bandit = finished(full, iterations=12)
    num_commits = 1 + 1 + 12 * 3 + 1  # founded, first begun, two judged and one applied a step, ended
    for commits in range(num_commits):
        cut = Cut(commits, after=after)
        with contextlib.suppress(errors.JournalFailed):
            finished(cut, iterations=12, num_parallel=workers)
        resumed = copied(cut)
        again = finished(resumed, iterations=12, num_parallel=workers)
        assert fixtures.list_results(resumed) == fixtures.list_results(full), f"cut at commit {commits}"
        assert again.gains == bandit.gains


def test_stop_and_resume_give_same_run() -> None:
    full, parts = memory.MemoryJournal(), memory.MemoryJournal()
    finished(full, iterations=40)
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
    finished(parts, iterations=40)
    assert fixtures.list_results(parts) == fixtures.list_results(full)


def test_stored_response_is_not_requested_again() -> None:
    full = memory.MemoryJournal()
    fixtures.make_evolver(
        fixtures.LLMWalker(fixtures.CountingLLM()), records=full, ordered=True, window=4, iterations=10
    ).run()
    for commits in range(2 + 10 * 4):
        model = fixtures.CountingLLM()
        cut = Cut(commits, after=True)
        with contextlib.suppress(errors.JournalFailed):
            fixtures.make_evolver(
                fixtures.LLMWalker(model), records=cut, ordered=True, window=4, iterations=10, num_parallel=3
            ).run()
        stored = {(record.step, record.data["call"]) for record in fixtures.list_records(cut, "replied")}
        resumed, second = copied(cut), fixtures.CountingLLM()
        fixtures.make_evolver(
            fixtures.LLMWalker(second), records=resumed, ordered=True, window=4, iterations=10, num_parallel=3
        ).run()
        assert not stored & set(second.requests)
        assert len(stored) + len(second.requests) == 20
        assert fixtures.list_results(resumed) == fixtures.list_results(full)
