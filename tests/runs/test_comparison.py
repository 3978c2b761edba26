"""Runs are compared where their scores mean the same."""

from typing import Any

import pytest

from atoll import store
from atoll.runs import comparison
from tests.runs import samples
from tests.store.samples import applied, child, founded, judged


@pytest.fixture
def kept(tmp_path):
    with store.open(tmp_path / "atoll.db") as opened:
        yield opened


def run(kept: store.Store, name: str, *scores: float, config: dict[str, Any] | None = None) -> str:
    kept.create_run(name, samples.plan() if config is None else config)
    records = kept.journal(name)
    records.write(founded(1.0))
    for step, score in enumerate(scores, 1):
        records.write(judged(f"{step}.0", score), applied(step, child(f"{step}.0")))
    return name


def test_the_higher_best_is_better(kept):
    found = comparison.compare(kept, [run(kept, "a", 2.0), run(kept, "b", 3.0), run(kept, "c", 2.5)])
    assert (found.better, found.verdict) == ("b", "b is better by 0.5.")


def test_at_equal_best_who_took_fewer_evaluations_is_better(kept):
    found = comparison.compare(kept, [run(kept, "a", 1.5, 3.0, 2.0), run(kept, "b", 3.0)])
    assert (found.better, found.verdict) == ("b", "The best scores are equal. b needed 1 fewer evaluations.")


def test_runs_that_nothing_tells_apart_are_equal(kept):
    found = comparison.compare(kept, [run(kept, "a", 3.0), run(kept, "b", 3.0)])
    assert found.better is None
    assert found.is_same_task


def test_gain_and_evaluations_to_the_best_are_told(kept):
    found = comparison.compare(kept, [run(kept, "a", 1.5, 3.0, 2.0), run(kept, "b")])
    first, second = found.entries
    assert (first.gain, first.evaluations_to_best, first.summary.totals.evaluations) == (2.0, 3, 4)
    assert (second.gain, second.evaluations_to_best) == (0.0, 1)


def test_a_copy_of_the_folder_is_the_same_task_and_changed_files_are_another():
    plan = samples.plan()
    assert comparison.get_task_key(plan) == comparison.get_task_key(samples.plan(seed=3, folder="/elsewhere"))
    assert comparison.get_task_key(plan) != comparison.get_task_key(samples.plan(files={"task.py": "changed"}))
    assert comparison.get_task_key(plan) != comparison.get_task_key(samples.plan(task={"file": "other.py"}))


def test_runs_that_name_no_task_do_not_compare(kept):
    found = comparison.compare(kept, [run(kept, "a", 2.0, config={}), run(kept, "b", 3.0, config={})])
    assert (found.is_same_task, found.better) == (False, None)


def test_runs_of_one_example_compare(kept):
    config = {"example": "funsearch_clusters.py"}
    found = comparison.compare(kept, [run(kept, "a", 2.0, config=config), run(kept, "b", 3.0, config=config)])
    assert found.better == "b"
