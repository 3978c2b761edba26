"""Failing journal: earlier commits stay, later writes raise."""

import pytest

from atoll.journal import ISSUED, Record
from atoll.store import memory
from atoll.testing import FailingJournal, fakes


def write(journal: FailingJournal, times: int) -> list[bool]:
    """Writes `times` records and returns which writes succeeded."""
    succeeded = []
    for step in range(times):
        try:
            journal.write(Record(ISSUED, step, 0, {}))
            succeeded.append(True)
        except OSError:
            succeeded.append(False)
    return succeeded


@pytest.mark.parametrize("commits", [0, 1, 3])
def test_write_raises_after_given_number_of_commits(commits: int) -> None:
    inner = memory.MemoryJournal()
    journal = FailingJournal(inner, commits)
    assert write(journal, 5) == [True] * commits + [False] * (5 - commits)
    assert len(inner.records) == commits == journal.num_commits
    assert journal.is_failed


def test_last_commit_can_be_stored_although_it_raises() -> None:
    inner = memory.MemoryJournal()
    assert write(FailingJournal(inner, 3, fails_after_write=True), 5) == [True, True, False, False, False]
    assert [record.step for record in inner.records] == [0, 1, 2]


def test_journal_without_limit_never_fails() -> None:
    journal = FailingJournal(memory.MemoryJournal())
    assert write(journal, 5) == [True] * 5
    assert (journal.num_commits, journal.is_failed) == (5, False)


def test_concurrent_writes_respect_limit() -> None:
    inner = memory.MemoryJournal()
    journal = FailingJournal(inner, 50)
    succeeded = fakes.run_concurrently(lambda thread: write(journal, 20), 8)
    assert sum(map(sum, succeeded)) == 50 == len(inner.records)
