"""Runs are compared where their scores mean the same."""

from typing import Any

import pytest

from atoll import store
from atoll.runs import comparison
from tests.runs import samples
from tests.store.samples import applied, child, founded, judged


@pytest.fixture
def run_store(tmp_path):
    with store.open(tmp_path / "atoll.db") as opened:
        yield opened


def run(run_store: store.Store, name: str, *scores: float, config: dict[str, Any] | None = None) -> str:
    run_store.create_run(name, samples.plan() if config is None else config)
    records = run_store.journal(name)
    records.write(founded(1.0))
    for step, score in enumerate(scores, 1):
        records.write(judged(f"{step}.0", score), applied(step, child(f"{step}.0")))
    return name


def test_compare_prefers_higher_best_score(run_store):
    result = comparison.compare(
        run_store, [run(run_store, "a", 2.0), run(run_store, "b", 3.0), run(run_store, "c", 2.5)]
    )
    assert (result.better, result.verdict) == ("b", "b is better by 0.5.")


def test_compare_prefers_fewer_evaluations_at_equal_scores(run_store):
    result = comparison.compare(run_store, [run(run_store, "a", 1.5, 3.0, 2.0), run(run_store, "b", 3.0)])
    assert (result.better, result.verdict) == ("b", "The best scores are equal. b needed 1 fewer evaluations.")


def test_compare_reports_equal_runs(run_store):
    result = comparison.compare(run_store, [run(run_store, "a", 3.0), run(run_store, "b", 3.0)])
    assert result.better is None
    assert result.is_same_task


def test_compare_reports_gain_and_evaluations_to_best(run_store):
    result = comparison.compare(run_store, [run(run_store, "a", 1.5, 3.0, 2.0), run(run_store, "b")])
    first, second = result.entries
    assert (first.gain, first.evaluations_to_best, first.summary.totals.evaluations) == (2.0, 3, 4)
    assert (second.gain, second.evaluations_to_best) == (0.0, 1)


def test_task_key_depends_on_files_not_on_folder():
    plan = samples.plan()
    assert comparison.get_task_key(plan) == comparison.get_task_key(samples.plan(seed=3, folder="/elsewhere"))
    assert comparison.get_task_key(plan) != comparison.get_task_key(samples.plan(files={"task.py": "changed"}))
    assert comparison.get_task_key(plan) != comparison.get_task_key(samples.plan(task={"file": "other.py"}))


def test_runs_without_task_are_not_comparable(run_store):
    result = comparison.compare(run_store, [run(run_store, "a", 2.0, config={}), run(run_store, "b", 3.0, config={})])
    assert (result.is_same_task, result.better) == (False, None)


def test_runs_of_one_example_are_comparable(run_store):
    config = {"example": "funsearch_clusters.py"}
    result = comparison.compare(
        run_store, [run(run_store, "a", 2.0, config=config), run(run_store, "b", 3.0, config=config)]
    )
    assert result.better == "b"
