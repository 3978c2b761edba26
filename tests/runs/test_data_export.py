"""Rows for fine-tuning: prompts, responses and their scores."""

import json
from typing import Any

import pytest

from atoll import store
from atoll.journal import Record
from atoll.runs import data_export
from tests.runs import samples
from tests.store.samples import applied, candidate, child, founded, judged


@pytest.fixture(scope="module")
def run_store():
    with store.open(samples.library()) as opened:
        yield opened


@pytest.fixture
def empty_store(tmp_path):
    with store.open(tmp_path / "atoll.db") as opened:
        opened.create_run("run")
        opened.journal("run").write(founded(1.0))
        yield opened


def replied(step: int, call: str = "0", text: str = "reply") -> Record:
    data = {"call": call, "text": text, "prompt": f"prompt {step}", "model": "m", "request": "r", "usage": [0, 1, 1, 0]}
    return Record("replied", step, 0, data)


def begun(step: int, *parents: str) -> Record:
    return Record("begun", step, 0, {"epoch": 0, "seen": 0, "parents": list(parents)})


def render(run_store: store.Store) -> list[dict[str, Any]]:
    return list(data_export.iter_finetuning_rows(run_store, "run"))


def test_finetuning_row_marks_improvement(run_store):
    assert next(data_export.iter_finetuning_rows(run_store, "asked")) == {
        "prompt": "The best so far is 0.0.\nWhat comes next?",
        "reply": "1.0",
        "model": "scripted",
        "score": -4.0,
        "improved": True,
        "parent_score": -9.0,
        "candidate": "1.0",
        "step": 1,
        "failure": None,
    }


def test_finetuning_row_without_child_has_failure_and_no_score(run_store):
    result = {record["step"]: record for record in data_export.iter_finetuning_rows(run_store, "asked")}
    assert (result[2]["score"], result[2]["improved"], result[2]["candidate"]) == (None, False, None)
    assert result[2]["failure"].startswith("the mutator raised ValueError: could not convert")
    assert result[2]["parent_score"] == -4.0
    assert result[3]["failure"] == "the step gave no child"


def test_finetuning_row_of_failed_or_worse_child_is_no_improvement(run_store):
    result = {record["step"]: record for record in data_export.iter_finetuning_rows(run_store, "asked")}
    assert (result[4]["score"], result[4]["improved"], result[4]["candidate"]) == (None, False, "4.0")
    assert result[4]["failure"] == "the evaluator raised ValueError: -1.000 is below zero"
    assert (result[6]["score"], result[6]["improved"], result[6]["failure"]) == (-6.25, False, None)


def test_finetuning_rows_omit_calls_without_response(run_store):
    assert 7 not in {record["step"] for record in data_export.iter_finetuning_rows(run_store, "asked")}


def test_run_without_llm_has_no_finetuning_rows(run_store):
    assert not list(data_export.iter_finetuning_rows(run_store, samples.LONG_ID))
    assert not list(data_export.iter_finetuning_rows(run_store, "empty"))


def test_finetuning_rows_are_ordered_by_iteration_and_call(empty_store):
    records = empty_store.journal("run")
    for step, call in ((3, "0"), (1, "1"), (10, "0"), (1, "0"), (1, "10"), (1, "2"), (2, "0")):
        records.write(replied(step, call, f"{step}/{call}"))
    assert [record["reply"] for record in render(empty_store)] == ["1/0", "1/1", "1/2", "1/10", "2/0", "3/0", "10/0"]


def test_repeated_call_after_crash_counts_once(empty_store):
    empty_store.journal("run").write(replied(1, text="unused"), replied(1, text="used"))
    assert [record["reply"] for record in render(empty_store)] == ["used"]


def test_finetuning_rows_omit_calls_of_evaluators_and_gates(empty_store):
    empty_store.journal("run").write(replied(1), replied(1, "0/0"), replied(1, "0/gate/0"))
    assert len(render(empty_store)) == 1


def test_best_child_scores_the_response(empty_store):
    records = empty_store.journal("run")
    records.write(begun(1, "0.0"), replied(1), judged("1.0", None), judged("1.1", 3.0), judged("1.2", 2.0))
    records.write(applied(1, child("1.0", "reject"), child("1.1"), child("1.2")))
    (record,) = render(empty_store)
    assert (record["candidate"], record["score"], record["improved"]) == ("1.1", 3.0, True)


def test_unfinished_iteration_has_no_improvement_flag(empty_store):
    empty_store.journal("run").write(begun(1, "0.0"), begun(2, "0.0"), replied(1), replied(2), judged("2.0", 5.0))
    first, second = render(empty_store)
    assert (first["improved"], first["failure"], first["parent_score"]) == (None, "the step was not finished", 1.0)
    assert (second["improved"], second["score"]) == (None, 5.0)


def test_child_rejected_by_prefilter_has_its_reason(empty_store):
    unjudged = candidate("1.0")
    empty_store.journal("run").write(begun(1, "0.0"), replied(1), applied(1, child("1.0", "reject", unjudged=unjudged)))
    (record,) = render(empty_store)
    assert (record["improved"], record["failure"]) == (False, "rejected for a reason")


def test_hostile_responses_are_plain_json(run_store):
    (record,) = data_export.iter_finetuning_rows(run_store, "hostile")
    assert json.loads(json.dumps(record))["reply"] == samples.SCRIPT
