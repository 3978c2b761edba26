"""`RecordQueries`."""

import pytest

from atoll import errors, store
from atoll.journal import Record
from atoll.store.records import queries


@pytest.fixture
def opened_store(tmp_path):
    with store.Store(tmp_path / "atoll.db") as opened_store:
        yield opened_store


@pytest.fixture
def run_queries(opened_store):
    opened_store.create_run("run")
    opened_store.create_run("other")
    opened_store.journal("other").write(Record("begun", 1, 0, {"text": "needle"}))
    kinds = ["begun", "judged", "applied"]
    opened_store.journal("run").write(
        *(Record(kinds[n % 3], n, n % 2, {"text": f"{'needle' if n == 7 else 'hay'} {n} 50%"}) for n in range(12))
    )
    return queries.RecordQueries(opened_store, "run")


def seqs(list_ids) -> list[int]:
    return [item.seq for item in list_ids]


def test_pages_from_both_ends(run_queries):
    assert run_queries.get_end() == 12
    assert seqs(run_queries.list_after(3, 4)) == [4, 5, 6, 7]
    assert seqs(run_queries.list_before(4, 2)) == [3, 2]
    assert seqs(run_queries.list_by_seq([9, 2, 99])) == [2, 9]


def test_queries_by_kind(run_queries):
    assert run_queries.count_by_kind(1, 6) == {"begun": 2, "judged": 2, "applied": 2}
    assert run_queries.list_seqs_by_kind(["begun", "applied"], 4, 12) == {"begun": [4, 7, 10], "applied": [6, 9, 12]}
    assert seqs(run_queries.list_by_kind(["judged"], 1, 12, 2)) == [11, 8]
    assert [kind for kind, *_ in run_queries.list_rows(["applied", "begun"], 1, 4)] == ["begun", "applied", "begun"]


def test_text_search(run_queries):
    assert seqs(run_queries.search("NEEDLE", 13, 12, 5).records) == [8]
    assert seqs(run_queries.search("50%", 13, 3, 5).records) == [12, 11, 10]
    assert not run_queries.search("5_%", 13, 12, 5).records
    assert run_queries.search("hay", 13, 12, 3).last_seq == 10
    assert run_queries.search("nothing", 13, 4, 3).last_seq == 9


def test_load_data_restores_long_texts(opened_store):
    opened_store.create_run("run")
    opened_store.journal("run").write(Record("replied", 1, 0, {"text": "x" * 20_000}))
    run_queries = queries.RecordQueries(opened_store, "run")
    (event,) = run_queries.list_after(0, 10)
    assert len(event.data) < 100
    assert run_queries.load_data(event) == {"text": "x" * 20_000}


def test_unknown_run_is_not_found(opened_store):
    with pytest.raises(errors.NotFound, match="missing"):
        queries.RecordQueries(opened_store, "missing")
