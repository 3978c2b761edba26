"""Totals, record search, response cache and prefetcher."""

import pytest

from atoll import store
from atoll.dashboard import record_search, response_cache, run_status, run_totals, server
from atoll.journal import Record
from atoll.runs import text_format
from atoll.store.records import queries
from tests import fixtures


@pytest.fixture
def run_store(tmp_path):
    with store.Store(tmp_path / "atoll.db") as run_store:
        run_store.create_run("run")
        yield run_store


def step(number: int) -> list[Record]:
    children = [{"id": f"{number}.0", "decision": ["accept", "it ran", "ran", None]}]
    applied = {"children": children, "evaluations": 1, "cost": [0.5, 10, 5, 0.25, 1]}
    return [Record("begun", number, 0, {"parents": []}), Record("applied", number, 0, applied)]


def test_totals_read_only_new_records(run_store, monkeypatch):
    monkeypatch.setattr(run_totals, "BATCH_RECORDS", 3)
    run_store.journal("run").write(
        Record("started", 0, -1, {"budget": {"iterations": 10}}), *step(1), *step(2), *step(3)
    )
    totals = run_totals.RunTotals(run_store, "run")
    assert not totals.advance(0.0)
    assert totals.seq == 3
    while not totals.advance(0.0):
        pass
    assert (totals.evaluations, totals.cost.usd, totals.steps) == (3, 0.75, 3)
    assert totals.compute_used_share() == 0.3
    assert totals.get_usage_at(2)[:3] == (2, 0.5, 30)
    run_store.journal("run").write(*step(4), Record("controlled", 4, -1, {"kind": "raise", "data": {"iterations": 20}}))
    assert totals.advance(10.0)
    assert (totals.evaluations, totals.budget["iterations"]) == (4, 20)


def test_totals_skip_malformed_records(run_store):
    odd = [Record("applied", 1, 0, {"evaluations": "many"}), Record("founded", 0, 0, {"evaluation": {"cost": "dear"}})]
    run_store.journal("run").write(*odd, *step(1))
    totals = run_totals.RunTotals(run_store, "run")
    assert totals.advance(10.0)
    assert totals.evaluations >= 1


@pytest.mark.parametrize("kind", ["ended", "concluded", "executed"])
def test_end_status_is_known_before_totals_are_complete(kind, run_store, monkeypatch):
    monkeypatch.setattr(run_totals, "BATCH_RECORDS", 1)
    body = {"reason": "iterations: 3 of 3", "result": {}, "executor": {"evaluations": 3, "again": 0}}
    run_store.journal("run").write(*step(1), Record(kind, 0, -1, body))
    totals = run_totals.RunTotals(run_store, "run")
    assert not totals.advance(0.0)
    assert run_status.RunStatusReader(run_store, run_store.get_run("run"), totals).get_status() == (
        "done",
        "iterations: 3 of 3",
    )


def test_status_of_shared_run_follows_leases_and_end_record(run_store):
    run = run_store.create_run(config={"shared": "yes"})
    leases = run_store.leases(run, "a coordinator", 60.0)
    leases.create_rows(2)
    leases.renew()
    totals = run_totals.RunTotals(run_store, run)
    assert run_status.RunStatusReader(run_store, run_store.get_run(run), totals).get_status() == ("running", "")
    leases.leave()
    assert run_status.RunStatusReader(run_store, run_store.get_run(run), totals).get_status()[0] == "crashed"
    run_store.journal(run).write(Record("ended", 0, -1, {"reason": "stopped"}), *step(1))
    assert totals.advance(10.0)
    assert run_status.RunStatusReader(run_store, run_store.get_run(run), totals).get_status() == ("stopped", "stopped")


def test_summary_of_executed_record(run_store):
    counted = {"reason": "", "executor": {"evaluations": 3, "again": 1}}
    run_store.journal("run").write(Record("executed", 0, -1, counted), Record("executed", 0, -1, {"executor": 7}))
    odd, known = map(text_format.summarize_record, queries.RecordQueries(run_store, "run").list_before(3, 2))
    assert known == "on Ray: evaluations 3, again 1"
    assert odd == '{"executor":7}'


@pytest.mark.parametrize("is_warm", [False, True])
def test_search_finds_rare_records(is_warm, run_store, monkeypatch):
    monkeypatch.setattr(record_search, "SEGMENT_RECORDS", 32)
    monkeypatch.setattr(record_search, "TEXT_SEGMENT_RECORDS", 16)
    monkeypatch.setattr(record_search, "MAX_INDEXED", 4)
    kinds = ["reset" if n % 25 == 0 else "judged" if n % 2 else "applied" for n in range(1, 201)]
    run_store.journal("run").write(*(Record(kind, n, 0, {"n": f"<{n}>"}) for n, kind in enumerate(kinds, 1)))
    search = record_search.RecordSearch(run_store, "run")
    while is_warm and search.index_next_segment():
        pass
    rare = [n for n, kind in enumerate(kinds, 1) if kind == "reset"][::-1]
    page = search.search(["reset"], "", 201, 3, 10.0)
    assert [item.seq for item in page.events] == rare[:3]
    assert not page.is_done
    rest = search.search(["reset"], "", page.oldest_searched, 100, 10.0)
    assert [item.seq for item in rest.events] == rare[3:]
    assert rest.is_done
    both = search.search(["reset", "judged"], "", 201, 500, 10.0)
    assert len(both.events) == sum(kind in ("reset", "judged") for kind in kinds)
    assert [item.seq for item in search.search([], "<77>", 201, 9, 10.0).events] == [77]
    assert search.search(["nothing"], "", 201, 9, 10.0) == ([], 1, True)


def test_search_reports_progress_at_time_limit(run_store, monkeypatch):
    monkeypatch.setattr(record_search, "TEXT_SEGMENT_RECORDS", 16)
    run_store.journal("run").write(*(Record("judged", n, 0, {"n": n}) for n in range(1, 101)))
    search, before, looks = record_search.RecordSearch(run_store, "run"), 101, 0
    while True:
        page = search.search([], "nothing like it", before, 9, 0.0)
        looks += 1
        assert page.oldest_searched < before
        before = page.oldest_searched
        if page.is_done:
            break
    assert looks == 7


def test_response_cache_recomputes_after_change_and_time():
    now = [0.0]
    run_store, times = response_cache.ResponseCache(lambda: now[0]), []

    def make():
        times.append(now[0])
        now[0] += 1.0
        return len(times)

    assert run_store.get("a", 1, make) == 1
    assert run_store.get("a", 1, make) == 1
    assert run_store.get("a", 2, make) == 1  # expensive responses are reused for a while
    now[0] += response_cache.REUSE_FACTOR
    assert run_store.get("a", 2, make) == 2
    assert run_store.get("a", 2, make) == 2


def test_prefetcher_reads_journals(run_store, monkeypatch):
    monkeypatch.setattr(record_search, "SEGMENT_RECORDS", 4)
    run_store.journal("run").write(*(record for n in range(1, 11) for record in step(n)))
    totals_cache, search_cache = run_totals.RunTotalsCache(run_store), record_search.RecordSearchCache(run_store)
    prefetcher = server.Prefetcher(run_store, totals_cache, search_cache)
    prefetcher.start()
    fixtures.wait_until(
        lambda: totals_cache.get("run").evaluations == 10 and not search_cache.get("run").index_next_segment(), 60
    )
    prefetcher.stop()
