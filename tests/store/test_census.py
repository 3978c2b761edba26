"""The candidates of a run in bulk."""

import pytest

from atoll import store
from atoll.store.candidates import queries
from tests.store import samples


@pytest.fixture
def kept(tmp_path):
    with store.Store(tmp_path / "atoll.db") as kept:
        yield kept


@pytest.fixture
def found(kept):
    kept.create("run")
    kept.journal("run").write(*samples.small_run())
    return queries.CandidateQueries(kept, "run")


def ids(heads) -> list[str]:
    return [head.id for head in heads]


def test_there_are_counts_by_island(found):
    assert found.count() == 16
    assert found.last_step() == 10
    assert [tuple(each) for each in found.counts()] == [(0, 2, 0, 1, 1), (1, 2, 11, 1, 12)]


def test_buckets_hold_the_best_and_the_mean(found):
    buckets = {(each.island, each.step): each for each in found.list_buckets(5)}
    assert buckets[0, 1].best == 2.0
    assert buckets[0, 1].mean == 1.5
    assert buckets[1, 2].size == 13
    assert buckets[0, 10].best is None


def test_the_best_are_those_that_were_accepted(found):
    assert ids(found.best(5)) == ["2.0", "1.0", "0.0"]
    assert ids(found.best(5, island=0)) == ["1.0", "0.0"]
    assert [each.id for each in found.improvements()] == ["0.0", "1.0", "2.0"]
    assert [each.id for each in found.improvements(after=1, score=2.0)] == ["2.0"]
    assert [tuple(each) for each in found.clusters(1)[0]] == [(2.0, 1, "1.0")]


@pytest.mark.parametrize("order", ["newest", "oldest", "best", "worst"])
def test_pages_hold_every_candidate_once(order, found):
    whole = ids(found.page(queries.CandidateFilter(), order, None, 100))
    seen: list[str] = []
    after = None
    while page := found.page(queries.CandidateFilter(), order, after, 3):
        seen += ids(page)
        after = queries.get_sort_key(page[-1], order)
    assert seen == whole
    assert len(set(seen)) == (16 if order in ("newest", "oldest") else 14)


def test_candidates_are_filtered(found):
    def some(**wanted):
        return ids(found.page(queries.CandidateFilter(**wanted), "oldest", None, 100))

    assert some(is_failed=True) == ["2.1", "10.0"]
    assert some(is_draft=False, island=1) == ["2.0", "2.1"]
    assert some(least=109.0) == ["2.d9", "2.d10"]
    assert some(verdict="reject") == ["2.1", "10.0"]
    assert some(id="2.d3") == ["2.d3"]
    assert some(id="10.") == ["10.0"]
    assert some(id="2.x") == []


def test_ids_are_looked_up_together(found):
    assert found.find(["2.0", "2.d1", "9.9", "nothing"]).keys() == {"2.0", "2.d1"}
    heads = found.window(1, 2, 3)
    assert ids(heads) == ["1.0", "2.0", "2.1"]
    assert len(found.load_contents(heads)) == 3
