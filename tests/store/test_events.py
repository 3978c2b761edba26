"""The records of a run as a list to look through."""

import pytest

from atoll import errors, store
from atoll.journal import Record
from atoll.store.records import queries


@pytest.fixture
def kept(tmp_path):
    with store.Store(tmp_path / "atoll.db") as kept:
        yield kept


@pytest.fixture
def found(kept):
    kept.create("run")
    kept.create("other")
    kept.journal("other").write(Record("begun", 1, 0, {"text": "needle"}))
    kinds = ["begun", "judged", "applied"]
    kept.journal("run").write(
        *(Record(kinds[n % 3], n, n % 2, {"text": f"{'needle' if n == 7 else 'hay'} {n} 50%"}) for n in range(12))
    )
    return queries.RecordQueries(kept, "run")


def seqs(some) -> list[int]:
    return [each.seq for each in some]


def test_pages_go_from_either_end(found):
    assert found.end() == 12
    assert seqs(found.after(3, 4)) == [4, 5, 6, 7]
    assert seqs(found.before(4, 2)) == [3, 2]
    assert seqs(found.at([9, 2, 99])) == [2, 9]


def test_kinds_are_counted_and_found(found):
    assert found.counts(1, 6) == {"begun": 2, "judged": 2, "applied": 2}
    assert found.places(["begun", "applied"], 4, 12) == {"begun": [4, 7, 10], "applied": [6, 9, 12]}
    assert seqs(found.list_by_kind(["judged"], 1, 12, 2)) == [11, 8]
    assert [kind for kind, *_ in found.list_rows(["applied", "begun"], 1, 4)] == ["begun", "applied", "begun"]


def test_words_are_found_as_they_are_written(found):
    assert seqs(found.search("NEEDLE", 13, 12, 5).events) == [8]
    assert seqs(found.search("50%", 13, 3, 5).events) == [12, 11, 10]
    assert not found.search("5_%", 13, 12, 5).events
    assert found.search("hay", 13, 12, 3).last == 10
    assert found.search("nothing", 13, 4, 3).last == 9


def test_long_texts_come_back(kept):
    kept.create("run")
    kept.journal("run").write(Record("replied", 1, 0, {"text": "x" * 20_000}))
    found = queries.RecordQueries(kept, "run")
    (event,) = found.list_after(0, 10)
    assert len(event.data) < 100
    assert found.load_data(event) == {"text": "x" * 20_000}


def test_a_run_that_is_not_there_is_not_found(kept):
    with pytest.raises(errors.NotFound, match="nobody"):
        queries.RecordQueries(kept, "nobody")
