"""Leases on islands: one owner at a time, and nothing is written by a former one."""

import itertools
import time

import pytest

from atoll import errors, journal, store

SECONDS = 0.3


@pytest.fixture
def run(opened):
    return opened.create("run", {})


def holders(opened, run, *names, seconds=60.0, num_islands=3):
    made = [opened.leases(run, name, seconds) for name in names]
    for each in made:
        each.open(num_islands)
        each.renew()
    return made


def judged(step, island, **data):
    found = {"id": f"{step}.0", "content": str(step), "parents": [], "island": island, "step": step, "label": "0"}
    found |= {"evaluation": {"score": 1.0}, "paid": True, **data}
    return journal.Record("judged", step, island, found)


def wait_for_free(held, island):
    deadline = time.monotonic() + 60
    while island not in held.renew().free and time.monotonic() < deadline:
        time.sleep(0.02)


def test_an_island_has_one_owner_at_a_time(opened, run):
    first, second = holders(opened, run, "first", "second")
    assert first.take([0, 1]) == [0, 1]
    assert second.take([0, 1, 2]) == [2]
    standing = second.renew()
    assert (standing.owned, standing.free, standing.num_members, standing.fair_share) == (frozenset({2}), (), 2, 2)
    first.release([1])
    assert second.renew().free == (1,)
    assert second.take([1]) == [1]


def test_who_falls_silent_is_replaced_and_can_write_nothing_more(opened, run):
    (quick,) = holders(opened, run, "quick", seconds=SECONDS)
    (steady,) = holders(opened, run, "steady")
    quick.take([0, 1])
    before = store.SharedJournal(quick)
    before.write(judged(1, 0))
    wait_for_free(steady, 0)
    assert steady.take([0]) == [0]
    with pytest.raises(errors.Conflict, match="Island 0 is led by another coordinator by now: nothing was written"):
        before.write(judged(4, 0))
    before.write(judged(2, 1))  # that lease ran out too, but nobody took it
    store.SharedJournal(steady).write(judged(4, 0))
    assert [record.step for record in opened.journal(run).read()] == [1, 2, 4]
    standing = quick.renew()
    assert (standing.lost, standing.owned) == (frozenset({0}), frozenset({1}))


def test_the_log_shows_that_no_island_had_two_owners_at_once(opened, run):
    held = holders(opened, run, "one", "two", "three", seconds=SECONDS)
    for each in (*held, *held):
        wait_for_free(each, 0)
        assert each.take([0]) == [0]
    held[2].release([0], done=True)
    found = [each for each in opened.list_lease_intervals(run) if each.island == 0]
    assert [each.owner for each in found] == ["one", "two", "three", "one", "two", "three"]
    assert [each.token for each in found] == [1, 2, 3, 4, 5, 6]
    for earlier, later in itertools.pairwise(found):
        assert earlier.until is not None
        assert earlier.since < earlier.until <= later.since
    assert held[0].take([0]) == []  # it is done


def test_each_reads_its_own_islands_and_what_concerns_all(opened, run):
    first, second = holders(opened, run, "first", "second")
    first.take([0])
    second.take([1])
    here, there = store.SharedJournal(first), store.SharedJournal(second)
    here.write(journal.Record("started", 0, -1, {}))
    here.write(judged(1, 0))
    there.write(judged(2, 1), judged(5, 1))
    assert [record.step for record in here.read()] == [0, 1]
    assert [record.step for record in there.read()] == [0, 2, 5]


def test_all_pay_from_one_account(opened, run):
    first, second = holders(opened, run, "first", "second")
    first.take([0])
    second.take([1])
    here, there = store.SharedJournal(first), store.SharedJournal(second)
    here.write(judged(1, 0), judged(4, 0, paid=False))
    usage = journal.Record("replied", 2, 1, {"call": "0", "usage": [0.0, 10, 5, 0.25]})
    there.write(judged(2, 1), usage)
    assert there.usage == store.SharedUsage(evaluations=2, calls=1, tokens=15, usd=0.25)


def test_a_function_travels_with_a_step_and_arrives_once(opened, run):
    first, second = holders(opened, run, "first", "second")
    first.take([0])
    second.take([1])
    here, there = store.SharedJournal(first), store.SharedJournal(second)
    here.send(1, {"id": "7.0", "content": "x"})
    here.write(judged(1, 0))
    assert there.read_arrivals([1]) == []  # it leaves with the step that let it go, not with what others write
    here.write(journal.Record("applied", 1, 0, {"children": [], "evaluations": 1}))
    (found,) = there.read_arrivals([1])
    assert (found.target, found.data) == (1, {"id": "7.0", "content": "x"})
    there.write(journal.Record("migrated", 2, 1, {"fn": found.data}))
    assert there.read_arrivals([1]) == []


def test_only_one_writes_the_end(opened, run):
    first, second = holders(opened, run, "first", "second")
    assert sorted(opened.list_coordinators(run)) == ["first", "second"]
    store.SharedJournal(first).write_end("budget used")
    for late in (second, first):
        with pytest.raises(errors.Conflict, match="has written the end"):
            store.SharedJournal(late).write_end("again")
    assert [each.data["reason"] for each in opened.journal(run).read_kinds("ended")] == ["budget used"]
    first.leave()
    assert opened.list_coordinators(run) == ["second"]
