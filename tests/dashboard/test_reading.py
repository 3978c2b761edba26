"""What is kept between questions: sums, places of records, answers."""

import pytest

from atoll import store
from atoll.dashboard import record_search, response_cache, run_status, run_totals, server
from atoll.journal import Record
from atoll.runs import text_format
from atoll.store.records import queries
from tests import fixtures


@pytest.fixture
def kept(tmp_path):
    with store.Store(tmp_path / "atoll.db") as kept:
        kept.create_run("run")
        yield kept


def step(number: int) -> list[Record]:
    children = [{"id": f"{number}.0", "decision": ["accept", "it ran", "ran", None]}]
    applied = {"children": children, "evaluations": 1, "cost": [0.5, 10, 5, 0.25, 1]}
    return [Record("begun", number, 0, {"parents": []}), Record("applied", number, 0, applied)]


def test_a_digest_reads_only_what_is_new(kept, monkeypatch):
    monkeypatch.setattr(run_totals, "BATCH_RECORDS", 3)
    kept.journal("run").write(Record("started", 0, -1, {"budget": {"iterations": 10}}), *step(1), *step(2), *step(3))
    found = run_totals.RunTotals(kept, "run")
    assert not found.advance(0.0)
    assert found.seq == 3
    while not found.advance(0.0):
        pass
    assert (found.evaluations, found.cost.usd, found.steps) == (3, 0.75, 3)
    assert found.compute_used_share() == 0.3
    assert found.get_usage_at(2) == (2, 0.5, 30)
    kept.journal("run").write(*step(4), Record("controlled", 4, -1, {"kind": "raise", "data": {"iterations": 20}}))
    assert found.advance(10.0)
    assert (found.evaluations, found.budget["iterations"]) == (4, 20)


def test_a_digest_passes_over_records_of_another_form(kept):
    odd = [Record("applied", 1, 0, {"evaluations": "many"}), Record("founded", 0, 0, {"evaluation": {"cost": "dear"}})]
    kept.journal("run").write(*odd, *step(1))
    found = run_totals.RunTotals(kept, "run")
    assert found.advance(10.0)
    assert found.evaluations >= 1


@pytest.mark.parametrize("kind", ["ended", "concluded", "executed"])
def test_how_a_run_ended_is_known_before_its_journal_is_added_up(kind, kept, monkeypatch):
    monkeypatch.setattr(run_totals, "BATCH_RECORDS", 1)
    said = {"reason": "iterations: 3 of 3", "result": {}, "executor": {"evaluations": 3, "again": 0}}
    kept.journal("run").write(*step(1), Record(kind, 0, -1, said))
    found = run_totals.RunTotals(kept, "run")
    assert not found.advance(0.0)
    assert run_status.RunStatusReader(kept, kept.get_run("run"), found).get_status() == ("done", "iterations: 3 of 3")


def test_a_shared_run_lives_by_its_leases_and_ends_by_its_end_whoever_still_wrote(kept):
    run = kept.create_run(config={"shared": "yes"})
    leases = kept.leases(run, "a coordinator", 60.0)
    leases.create_rows(2)
    leases.renew()
    found = run_totals.RunTotals(kept, run)
    assert run_status.RunStatusReader(kept, kept.get_run(run), found).get_status() == ("running", "")
    leases.leave()
    assert run_status.RunStatusReader(kept, kept.get_run(run), found).get_status()[0] == "crashed"
    kept.journal(run).write(Record("ended", 0, -1, {"reason": "stopped"}), *step(1))
    assert found.advance(10.0)
    assert run_status.RunStatusReader(kept, kept.get_run(run), found).get_status() == ("stopped", "stopped")


def test_a_record_of_a_cluster_says_what_it_counted(kept):
    counted = {"reason": "", "executor": {"evaluations": 3, "again": 1}}
    kept.journal("run").write(Record("executed", 0, -1, counted), Record("executed", 0, -1, {"executor": 7}))
    odd, known = map(text_format.summarize_record, queries.RecordQueries(kept, "run").list_before(3, 2))
    assert known == "on Ray: evaluations 3, again 1"
    assert odd == '{"executor":7}'


@pytest.mark.parametrize("is_warm", [False, True])
def test_rare_records_are_found_among_many(is_warm, kept, monkeypatch):
    monkeypatch.setattr(record_search, "SEGMENT_RECORDS", 32)
    monkeypatch.setattr(record_search, "TEXT_SEGMENT_RECORDS", 16)
    monkeypatch.setattr(record_search, "MAX_INDEXED", 4)
    kinds = ["reset" if n % 25 == 0 else "judged" if n % 2 else "applied" for n in range(1, 201)]
    kept.journal("run").write(*(Record(kind, n, 0, {"n": f"<{n}>"}) for n, kind in enumerate(kinds, 1)))
    finder = record_search.RecordSearch(kept, "run")
    while is_warm and finder.index_next_segment():
        pass
    rare = [n for n, kind in enumerate(kinds, 1) if kind == "reset"][::-1]
    page = finder.search(["reset"], "", 201, 3, 10.0)
    assert [each.seq for each in page.events] == rare[:3]
    assert not page.is_done
    rest = finder.search(["reset"], "", page.oldest_searched, 100, 10.0)
    assert [each.seq for each in rest.events] == rare[3:]
    assert rest.is_done
    both = finder.search(["reset", "judged"], "", 201, 500, 10.0)
    assert len(both.events) == sum(kind in ("reset", "judged") for kind in kinds)
    assert [each.seq for each in finder.search([], "<77>", 201, 9, 10.0).events] == [77]
    assert finder.search(["nothing"], "", 201, 9, 10.0) == ([], 1, True)


def test_a_look_that_takes_too_long_says_how_far_it_came(kept, monkeypatch):
    monkeypatch.setattr(record_search, "TEXT_SEGMENT_RECORDS", 16)
    kept.journal("run").write(*(Record("judged", n, 0, {"n": n}) for n in range(1, 101)))
    finder, before, looks = record_search.RecordSearch(kept, "run"), 101, 0
    while True:
        page = finder.search([], "nothing like it", before, 9, 0.0)
        looks += 1
        assert page.oldest_searched < before
        before = page.oldest_searched
        if page.is_done:
            break
    assert looks == 7


def test_an_answer_is_made_again_only_when_something_changed_and_time_has_gone_by():
    now = [0.0]
    kept, made = response_cache.ResponseCache(lambda: now[0]), []

    def make():
        made.append(now[0])
        now[0] += 1.0
        return len(made)

    assert kept.get("a", 1, make) == 1
    assert kept.get("a", 1, make) == 1
    assert kept.get("a", 2, make) == 1  # it was dear, and is good for a while
    now[0] += response_cache.REUSE_FACTOR
    assert kept.get("a", 2, make) == 2
    assert kept.get("a", 2, make) == 2


def test_long_journals_are_read_ahead(kept, monkeypatch):
    monkeypatch.setattr(record_search, "SEGMENT_RECORDS", 4)
    kept.journal("run").write(*(record for n in range(1, 11) for record in step(n)))
    digests, finders = run_totals.RunTotalsCache(kept), record_search.RecordSearchCache(kept)
    reading = server.Prefetcher(kept, digests, finders)
    reading.start()
    fixtures.wait_until(lambda: digests.get("run").evaluations == 10 and not finders.get("run").index_next_segment(), 60)
    reading.stop()
