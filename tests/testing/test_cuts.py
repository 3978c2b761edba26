"""A dying journal: what was committed stays, and nothing is written after the cut."""

import pytest

from atoll.journal import Record
from atoll.store import memory
from atoll.testing import FailingJournal, assertions


def write(journal: FailingJournal, times: int) -> list[bool]:
    """Writes so often and says which writes were heard to succeed."""
    heard = []
    for step in range(times):
        try:
            journal.write(Record("begun", step, 0, {}))
            heard.append(True)
        except OSError:
            heard.append(False)
    return heard


@pytest.mark.parametrize("commits", [0, 1, 3])
def test_after_so_many_commits_every_write_raises(commits: int) -> None:
    inside = memory.MemoryJournal()
    journal = FailingJournal(inside, commits)
    assert write(journal, 5) == [True] * commits + [False] * (5 - commits)
    assert len(inside.records) == commits == journal.num_commits
    assert journal.is_failed


def test_the_last_commit_may_be_stored_although_its_writer_hears_an_error() -> None:
    inside = memory.MemoryJournal()
    assert write(FailingJournal(inside, 3, fails_after_write=True), 5) == [True, True, False, False, False]
    assert [record.step for record in inside.records] == [0, 1, 2]


def test_without_a_number_it_lives_and_counts() -> None:
    journal = FailingJournal(memory.MemoryJournal())
    assert write(journal, 5) == [True] * 5
    assert (journal.num_commits, journal.is_failed) == (5, False)


def test_whoever_writes_no_commit_more_gets_through() -> None:
    inside = memory.MemoryJournal()
    journal = FailingJournal(inside, 50)
    heard = assertions.run_concurrently(lambda thread: write(journal, 20), 8)
    assert sum(map(sum, heard)) == 50 == len(inside.records)
