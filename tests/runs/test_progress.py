"""Improvements, islands and lines of descent, from the store alone."""

import pytest

from atoll import errors, store
from atoll.journal import Record
from atoll.runs import progress
from tests.runs import samples
from tests.store.samples import applied, child, founded, judged, small_run


@pytest.fixture(scope="module")
def kept():
    with store.open(samples.library()) as opened:
        yield opened


@pytest.fixture
def fresh(tmp_path):
    with store.open(tmp_path / "atoll.db") as opened:
        opened.create_run("run")
        yield opened


def test_each_improvement_is_better_than_all_before_and_the_last_is_the_best(kept):
    for run in (samples.LONG_ID, "failing", "asked", "cut", "hostile"):
        steps = progress.find_improvements(kept, run)
        scores = [step.score for step in steps]
        assert scores == sorted(set(scores))
        assert steps[0].evaluations == 1
        assert steps[-1].id == kept.candidates(run).list_best()[0].id


def test_drafts_count_as_evaluations_but_are_no_improvements(fresh):
    fresh.journal("run").write(*small_run())
    assert [(step.id, step.score) for step in progress.find_improvements(fresh, "run")] == [
        ("0.0", 1.0),
        ("1.0", 2.0),
        ("2.0", 5.0),
    ]


def test_what_was_held_is_an_improvement_once_it_was_let_in(fresh):
    records = fresh.journal("run")
    records.write(founded(), judged("1.0", 5.0), applied(1, child("1.0", "hold")))
    assert [step.id for step in progress.find_improvements(fresh, "run")] == ["0.0"]
    records.write(judged("2.0", 3.0), applied(2, child("2.0")))
    records.write(Record("decided", 1, 0, {"id": "1.0", "decision": ["accept", "agreed", "ada", None]}))
    assert [(step.id, step.evaluations) for step in progress.find_improvements(fresh, "run")] == [
        ("0.0", 1),
        ("2.0", 3),
        ("1.0", 3),
    ]


def test_an_island_on_which_nothing_is_better_has_the_start_for_its_best(fresh):
    records = fresh.journal("run")
    records.write(founded(1.0), judged("1.0", 0.5, island=1), applied(1, child("1.0"), island=1))
    first, second = progress.summarize_islands(fresh, "run")
    assert (first.best_id, first.candidates, second.best_id, second.candidates) == ("0.0", 0, "0.0", 1)


def test_a_run_before_its_start_has_nothing(kept):
    assert progress.find_improvements(kept, "empty") == []
    assert progress.summarize_islands(kept, "empty") == []
    assert progress.count_islands(kept, "empty") == 0


def test_a_parent_that_is_a_version_is_the_candidate_that_became_it(fresh):
    records = fresh.journal("run")
    records.write(founded(), judged("1.0", 2.0), applied(1, child("1.0", version="book@1")))
    records.write(judged("2.0", 3.0, parents=["book@1"]), applied(2, child("2.0", version="book@2")))
    rows = fresh.candidates("run")
    assert [link.row.id for link in progress.get_best_lineage(rows, rows.get("2.0"))] == ["2.0", "1.0", "0.0"]
    assert progress.find_candidate(fresh, "run", "book@2").id == "2.0"


def test_a_parent_from_elsewhere_ends_the_line(fresh):
    fresh.journal("run").write(founded(), judged("1.0", 2.0, parents=["book@9"]), applied(1, child("1.0")))
    rows = fresh.candidates("run")
    (link,) = progress.get_best_lineage(rows, rows.get("1.0"))
    assert (link.parent, link.gain) == (None, None)


def test_the_best_parent_is_the_one_with_the_highest_score_and_of_equals_the_last(fresh):
    records = fresh.journal("run")
    records.write(founded(1.0))
    for step, score in ((1, 2.0), (2, 2.0), (3, None)):
        records.write(judged(f"{step}.0", score), applied(step, child(f"{step}.0")))
    records.write(judged("4.0", 1.5, parents=["0.0", "1.0", "2.0", "3.0"]), applied(4, child("4.0")))
    rows = fresh.candidates("run")
    link = progress.make_lineage_entry(rows, rows.get("4.0"))
    assert link.parent is not None
    assert (link.parent.id, link.gain) == ("2.0", -0.5)


def test_a_candidate_that_is_not_there_is_told_with_what_to_do(kept):
    with pytest.raises(errors.NotFound, match=r"Run asked has no candidate 7\.7\. 'atoll best asked -n 20'"):
        progress.find_candidate(kept, "asked", "7.7")
