"""Improvements, islands and lines of descent, from the store alone."""

import pytest

from atoll import errors, store
from atoll.journal import Record
from atoll.runs import progress
from tests.runs import samples
from tests.store.samples import applied, child, founded, judged, small_run


@pytest.fixture(scope="module")
def run_store():
    with store.open(samples.library()) as opened:
        yield opened


@pytest.fixture
def empty_store(tmp_path):
    with store.open(tmp_path / "atoll.db") as opened:
        opened.create_run("run")
        yield opened


def test_improvements_rise_to_the_best(run_store):
    for run in (samples.LONG_ID, "failing", "asked", "cut", "hostile"):
        steps = progress.find_improvements(run_store, run)
        scores = [step.score for step in steps]
        assert scores == sorted(set(scores))
        assert steps[0].evaluations == 1
        assert steps[-1].id == run_store.candidates(run).list_best()[0].id


def test_trials_count_as_evaluations_but_not_as_improvements(empty_store):
    empty_store.journal("run").write(*small_run())
    assert [(step.id, step.score) for step in progress.find_improvements(empty_store, "run")] == [
        ("0.0", 1.0),
        ("1.0", 2.0),
        ("2.0", 5.0),
    ]


def test_held_candidate_is_an_improvement_after_acceptance(empty_store):
    records = empty_store.journal("run")
    records.write(founded(), judged("1.0", 5.0), applied(1, child("1.0", "hold")))
    assert [step.id for step in progress.find_improvements(empty_store, "run")] == ["0.0"]
    records.write(judged("2.0", 3.0), applied(2, child("2.0")))
    records.write(Record("decided", 1, 0, {"id": "1.0", "decision": ["accept", "agreed", "ada", None]}))
    assert [(step.id, step.evaluations) for step in progress.find_improvements(empty_store, "run")] == [
        ("0.0", 1),
        ("2.0", 3),
        ("1.0", 3),
    ]


def test_best_of_island_defaults_to_initial_candidate(empty_store):
    records = empty_store.journal("run")
    records.write(founded(1.0), judged("1.0", 0.5, island=1), applied(1, child("1.0"), island=1))
    first, second = progress.summarize_islands(empty_store, "run")
    assert (first.best_id, first.candidates, second.best_id, second.candidates) == ("0.0", 0, "0.0", 1)


def test_run_before_start_has_no_progress(run_store):
    assert progress.find_improvements(run_store, "empty") == []
    assert progress.summarize_islands(run_store, "empty") == []
    assert progress.count_islands(run_store, "empty") == 0


def test_parent_version_resolves_to_its_candidate(empty_store):
    records = empty_store.journal("run")
    records.write(founded(), judged("1.0", 2.0), applied(1, child("1.0", version="book@1")))
    records.write(judged("2.0", 3.0, parents=["book@1"]), applied(2, child("2.0", version="book@2")))
    rows = empty_store.candidates("run")
    assert [link.row.id for link in progress.get_best_lineage(rows, rows.get("2.0"))] == ["2.0", "1.0", "0.0"]
    assert progress.find_candidate(empty_store, "run", "book@2").id == "2.0"


def test_unknown_parent_ends_lineage(empty_store):
    empty_store.journal("run").write(founded(), judged("1.0", 2.0, parents=["book@9"]), applied(1, child("1.0")))
    rows = empty_store.candidates("run")
    (link,) = progress.get_best_lineage(rows, rows.get("1.0"))
    assert (link.parent, link.gain) == (None, None)


def test_best_parent_has_highest_score_and_is_last_of_equals(empty_store):
    records = empty_store.journal("run")
    records.write(founded(1.0))
    for step, score in ((1, 2.0), (2, 2.0), (3, None)):
        records.write(judged(f"{step}.0", score), applied(step, child(f"{step}.0")))
    records.write(judged("4.0", 1.5, parents=["0.0", "1.0", "2.0", "3.0"]), applied(4, child("4.0")))
    rows = empty_store.candidates("run")
    link = progress.make_lineage_entry(rows, rows.get("4.0"))
    assert link.parent is not None
    assert (link.parent.id, link.gain) == ("2.0", -0.5)


def test_missing_candidate_error_says_what_to_do(run_store):
    with pytest.raises(errors.NotFound, match=r"Run asked has no candidate 7\.7\. 'atoll best asked -n 20'"):
        progress.find_candidate(run_store, "asked", "7.7")
