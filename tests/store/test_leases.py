"""Leases of islands, and shared journals."""

import itertools
import time

import pytest

from atoll import errors, journal, store

SECONDS = 0.3


@pytest.fixture
def run(opened):
    return opened.create_run("run", {})


def holders(opened, run, *names, seconds=60.0, num_islands=3):
    created = [opened.leases(run, name, seconds) for name in names]
    for item in created:
        item.create_rows(num_islands)
        item.renew()
    return created


def judged(step, island, **data):
    rows = {"id": f"{step}.0", "content": str(step), "parents": [], "island": island, "step": step, "label": "0"}
    rows |= {"evaluation": {"score": 1.0}, "paid": True, **data}
    return journal.Record("judged", step, island, rows)


def wait_for_free(held, island):
    deadline = time.monotonic() + 60
    while island not in held.renew().free and time.monotonic() < deadline:
        time.sleep(0.02)


def test_island_has_one_owner(opened, run):
    first, second = holders(opened, run, "first", "second")
    assert first.acquire([0, 1]) == [0, 1]
    assert second.acquire([0, 1, 2]) == [2]
    status = second.renew()
    assert (status.owned, status.free, status.num_members, status.fair_share) == (frozenset({2}), (), 2, 2)
    first.release([1])
    assert second.renew().free == (1,)
    assert second.acquire([1]) == [1]


def test_expired_owner_is_replaced_and_cannot_write(opened, run):
    (quick,) = holders(opened, run, "quick", seconds=SECONDS)
    (steady,) = holders(opened, run, "steady")
    quick.acquire([0, 1])
    before = store.SharedJournal(quick)
    before.write(judged(1, 0))
    wait_for_free(steady, 0)
    assert steady.acquire([0]) == [0]
    with pytest.raises(errors.Conflict, match=r"has taken over island 0. Nothing was written"):
        before.write(judged(4, 0))
    before.write(judged(2, 1))  # this lease expired too, but was not taken
    store.SharedJournal(steady).write(judged(4, 0))
    assert [record.step for record in opened.journal(run).read()] == [1, 2, 4]
    status = quick.renew()
    assert (status.lost, status.owned) == (frozenset({0}), frozenset({1}))


def test_lease_intervals_do_not_overlap(opened, run):
    held = holders(opened, run, "one", "two", "three", seconds=SECONDS)
    for item in (*held, *held):
        wait_for_free(item, 0)
        assert item.acquire([0]) == [0]
    held[2].release([0], is_done=True)
    rows = [item for item in opened.list_lease_intervals(run) if item.island == 0]
    assert [item.owner for item in rows] == ["one", "two", "three", "one", "two", "three"]
    assert [item.token for item in rows] == [1, 2, 3, 4, 5, 6]
    for earlier, later in itertools.pairwise(rows):
        assert earlier.until is not None
        assert earlier.since < earlier.until <= later.since
    assert held[0].acquire([0]) == []  # done


def test_shared_journal_reads_own_islands_and_those_about_all(opened, run):
    first, second = holders(opened, run, "first", "second")
    first.acquire([0])
    second.acquire([1])
    first_journal, second_journal = store.SharedJournal(first), store.SharedJournal(second)
    first_journal.write(journal.Record("started", 0, -1, {}))
    first_journal.write(judged(1, 0))
    second_journal.write(judged(2, 1), judged(5, 1))
    assert [record.step for record in first_journal.read()] == [0, 1]
    assert [record.step for record in second_journal.read()] == [0, 2, 5]


def test_usage_is_shared(opened, run):
    first, second = holders(opened, run, "first", "second")
    first.acquire([0])
    second.acquire([1])
    first_journal, second_journal = store.SharedJournal(first), store.SharedJournal(second)
    first_journal.write(judged(1, 0), judged(4, 0, paid=False))
    usage = journal.Record("replied", 2, 1, {"call": "0", "usage": [0.0, 10, 5, 0.25]})
    second_journal.write(judged(2, 1), usage)
    assert second_journal.usage == store.SharedUsage(evaluations=2, calls=1, tokens=15, usd=0.25)


def test_migrant_arrives_once(opened, run):
    first, second = holders(opened, run, "first", "second")
    first.acquire([0])
    second.acquire([1])
    first_journal, second_journal = store.SharedJournal(first), store.SharedJournal(second)
    first_journal.send(1, {"id": "7.0", "content": "x"})
    first_journal.write(judged(1, 0))
    assert second_journal.read_arrivals([1]) == []  # it is sent with the applied iteration
    first_journal.write(journal.Record("applied", 1, 0, {"children": [], "evaluations": 1}))
    (rows,) = second_journal.read_arrivals([1])
    assert (rows.target, rows.data) == (1, {"id": "7.0", "content": "x"})
    second_journal.write(journal.Record("migrated", 2, 1, {"fn": rows.data}))
    assert second_journal.read_arrivals([1]) == []


def test_end_is_written_once(opened, run):
    first, second = holders(opened, run, "first", "second")
    assert sorted(opened.list_coordinators(run)) == ["first", "second"]
    store.SharedJournal(first).write_end("budget used")
    for late in (second, first):
        with pytest.raises(errors.Conflict, match="has ended this run already"):
            store.SharedJournal(late).write_end("again")
    assert [item.data["reason"] for item in opened.journal(run).read_kinds("ended")] == ["budget used"]
    first.leave()
    assert opened.list_coordinators(run) == ["second"]
