"""Totals, record search, response cache and prefetcher."""

import threading
import time

import pytest
from starlette.testclient import TestClient

from atoll import store
from atoll.dashboard import connections, dependencies, record_search, response_cache, run_status, run_totals, server
from atoll.journal import Record
from atoll.runs import text_format
from atoll.store.candidate_queries import CandidateQueries
from atoll.store.records import queries
from tests import fixtures
from tests.runs import samples
from tests.store.samples import applied, child, founded, judged


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


def test_totals_with_lone_surrogate_keep_the_other_records(run_store):
    failed = Record("applied", 2, 0, {"children": [], "evaluations": 1, "failure": "bad \ud800 text"})
    run_store.journal("run").write(*step(1), failed, Record("applied", 3, 0, {"cost": ["dear"]}), *step(4))
    totals = run_totals.RunTotals(run_store, "run")
    assert totals.advance(10.0)
    assert (totals.evaluations, totals.failures, totals.steps, totals.cost.usd) == (3, 1, 4, 0.5)
    assert [group.num_failures for group in totals.list_failures()] == [1]


def test_improvements_are_extended_and_equal_all(run_store, monkeypatch):
    monkeypatch.setattr(run_totals, "MAX_OPEN_ITERATIONS", 3)
    records, totals = run_store.journal("run"), run_totals.RunTotals(run_store, "run")
    records.write(founded(1.0, "start"))
    for first in (1, 11, 21):
        for number in (*range(first + 2, first + 10), first, first + 1):  # iterations end in another order
            score = float(number * 7 % 31)
            records.write(judged(f"{number}.0", score), applied(number, child(f"{number}.0")))
        assert totals.list_improvements() == CandidateQueries(run_store, "run").list_improvements()
    assert len(totals.list_improvements()) > 3


def test_long_run_is_answered_before_it_is_counted(run_store, monkeypatch):
    monkeypatch.setattr(run_totals, "FIRST_RECORDS", 3)
    monkeypatch.setattr(dependencies, "MAX_UNREAD", 2)
    for name in ("QUIET_SECONDS", "MAX_QUIET_SECONDS"):
        monkeypatch.setattr(server, name, 600.0)  # the prefetcher waits
    samples.walk(run_store, "long", iterations=20)
    app = server.create_app(run_store)
    with app.state.activity.track("/"), TestClient(app, base_url="http://127.0.0.1:8765") as client:
        uncounted = client.get("/api/runs/long/answer").json()
        assert uncounted["headline"].startswith("The best score is")
        assert not uncounted["is_counted"]
        assert 0 < uncounted["counted"] < 1
        assert any("still being counted" in line for line in uncounted["details"])
        for name in ("improvements", "dots"):
            assert not client.get(f"/api/runs/long/{name}").json()["is_counted"]
        assert app.state.totals_cache.get("long").advance(10.0)
        counted = client.get("/api/runs/long/answer").json()
        assert counted["is_counted"]
        assert any(line.startswith("Cost: 21 evaluations, no LLM calls") for line in counted["details"])
        assert client.get("/api/runs/long/dots").json()["is_counted"]


def test_prefetcher_reads_requested_run_first(run_store):
    for number in range(server.NUM_NEWEST_RUNS):
        run_store.create_run(f"newer {number}")
    run_store.journal("run").write(*step(1))
    totals_cache = run_totals.RunTotalsCache(run_store)
    prefetcher = server.Prefetcher(run_store, totals_cache, record_search.RecordSearchCache(run_store))
    prefetcher.start()
    prefetcher.request("run")  # older than those that it reads by itself
    fixtures.wait_until(lambda: totals_cache.get("run").evaluations == 1, 60)
    prefetcher.stop()


def test_activity_ignores_streams():
    activity = connections.Activity()
    assert activity.get_quiet_seconds() > 1e9
    with activity.track("/sse/timeline"):
        assert activity.get_quiet_seconds() > 1e9
    with activity.track("/api/runs"):
        assert activity.get_quiet_seconds() == 0.0
    assert activity.get_quiet_seconds() < 60


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


def test_response_cache_computes_equal_responses_once():
    cache, started, results = response_cache.ResponseCache(), threading.Event(), []

    def compute():
        started.set()
        time.sleep(0.05)
        return object()

    threads = [threading.Thread(target=lambda: results.append(cache.get("a", 1, compute))) for _ in range(4)]
    threads[0].start()
    assert started.wait(60)
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(results) == 4
    assert len(set(map(id, results))) == 1


def test_page_files_are_revalidated(tmp_path):
    path = tmp_path / "page.js"
    path.write_text("one")
    client = TestClient(server.PageFiles(tmp_path))
    first = client.get("/page.js")
    assert (first.text, first.headers["cache-control"]) == ("one", "no-cache")
    assert first.headers["content-type"].startswith("text/javascript")
    etag = {"if-none-match": first.headers["etag"]}
    assert client.get("/page.js", headers=etag).status_code == 304
    path.write_text("two, longer")
    assert client.get("/page.js", headers=etag).text == "two, longer"
    assert client.post("/page.js").status_code == 405
    assert client.get("/other.js").status_code == 404


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
