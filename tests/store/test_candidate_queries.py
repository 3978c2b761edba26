"""`CandidateQueries`."""

import pytest

from atoll import store
from atoll.store import candidate_queries
from tests.store import samples


@pytest.fixture
def opened_store(tmp_path):
    with store.Store(tmp_path / "atoll.db") as opened_store:
        yield opened_store


@pytest.fixture
def run_queries(opened_store):
    opened_store.create_run("run")
    opened_store.journal("run").write(*samples.small_run())
    return candidate_queries.CandidateQueries(opened_store, "run")


def ids(heads) -> list[str]:
    return [head.id for head in heads]


def test_count_by_island(run_queries):
    assert run_queries.count() == 16
    assert run_queries.get_last_step() == 10
    assert [tuple(item) for item in run_queries.count_by_island()] == [(0, 2, 0, 1, 1), (1, 2, 11, 1, 12)]


def test_buckets_have_best_and_mean(run_queries):
    buckets = {(item.island, item.step): item for item in run_queries.list_buckets(5)}
    assert buckets[0, 1].best == 2.0
    assert buckets[0, 1].mean == 1.5
    assert buckets[1, 2].size == 12
    assert buckets[0, 10].best is None


def test_best_and_improvements_are_accepted_candidates(run_queries):
    assert ids(run_queries.list_best(5)) == ["2.0", "1.0", "0.0"]
    assert ids(run_queries.list_best(5, island=0)) == ["1.0", "0.0"]
    assert [item.id for item in run_queries.list_improvements()] == ["0.0", "1.0", "2.0"]
    assert [item.id for item in run_queries.list_improvements(after=1, score=2.0)] == ["2.0"]
    assert [tuple(item) for item in run_queries.list_clusters(1)[0]] == [(2.0, 1, "1.0")]


@pytest.mark.parametrize("order", ["newest", "oldest", "best", "worst"])
def test_pages_have_every_candidate_once(order, run_queries):
    all_ids = ids(run_queries.list_page(candidate_queries.CandidateFilter(), order, None, 100))
    read_contents: list[str] = []
    after = None
    while page := run_queries.list_page(candidate_queries.CandidateFilter(), order, after, 3):
        read_contents += ids(page)
        after = candidate_queries.get_sort_key(page[-1], order)
    assert read_contents == all_ids
    assert len(set(read_contents)) == (16 if order in ("newest", "oldest") else 14)


def test_filter(run_queries):
    def list_ids(**expected):
        return ids(run_queries.list_page(candidate_queries.CandidateFilter(**expected), "oldest", None, 100))

    assert list_ids(is_failed=True) == ["2.1", "10.0"]
    assert list_ids(is_draft=False, island=1) == ["2.0", "2.1"]
    assert list_ids(min_score=109.0) == ["2.d9", "2.d10"]
    assert list_ids(verdict="reject") == ["2.1", "10.0"]
    assert list_ids(id="2.d3") == ["2.d3"]
    assert list_ids(id="10.") == ["10.0"]
    assert list_ids(id="2.x") == []


def test_find_many_ids(run_queries):
    assert run_queries.find(["2.0", "2.d1", "9.9", "nothing"]).keys() == {"2.0", "2.d1"}
    heads = run_queries.list_window(1, 2, 3)
    assert ids(heads) == ["1.0", "2.0", "2.1"]
    assert len(run_queries.load_contents(heads)) == 3
