"""What a model was asked, what it replied and what that was worth."""

import json
from typing import Any

import pytest

from atoll import store
from atoll.journal import Record
from atoll.runs import data_export
from tests.runs import samples
from tests.store.samples import applied, candidate, child, founded, judged


@pytest.fixture(scope="module")
def kept():
    with store.open(samples.library()) as opened:
        yield opened


@pytest.fixture
def fresh(tmp_path):
    with store.open(tmp_path / "atoll.db") as opened:
        opened.create_run("run")
        opened.journal("run").write(founded(1.0))
        yield opened


def replied(step: int, call: str = "0", text: str = "reply") -> Record:
    data = {"call": call, "text": text, "prompt": f"prompt {step}", "model": "m", "request": "r", "usage": [0, 1, 1, 0]}
    return Record("replied", step, 0, data)


def begun(step: int, *parents: str) -> Record:
    return Record("begun", step, 0, {"epoch": 0, "seen": 0, "parents": list(parents)})


def made(kept: store.Store) -> list[dict[str, Any]]:
    return list(data_export.iter_finetuning_rows(kept, "run"))


def test_a_reply_that_improves_says_so(kept):
    assert next(data_export.iter_finetuning_rows(kept, "asked")) == {
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


def test_a_reply_that_gives_no_child_has_no_score_and_the_failure(kept):
    found = {record["step"]: record for record in data_export.iter_finetuning_rows(kept, "asked")}
    assert (found[2]["score"], found[2]["improved"], found[2]["candidate"]) == (None, False, None)
    assert found[2]["failure"].startswith("the engine raised ValueError: could not convert")
    assert found[2]["parent_score"] == -4.0
    assert found[3]["failure"] == "the iteration has no child"


def test_a_child_that_breaks_or_is_worse_is_no_improvement(kept):
    found = {record["step"]: record for record in data_export.iter_finetuning_rows(kept, "asked")}
    assert (found[4]["score"], found[4]["improved"], found[4]["candidate"]) == (None, False, "4.0")
    assert found[4]["failure"] == "the judge raised ValueError: -1.000 is below zero"
    assert (found[6]["score"], found[6]["improved"], found[6]["failure"]) == (-6.25, False, None)


def test_a_call_without_a_reply_is_not_in_it(kept):
    assert 7 not in {record["step"] for record in data_export.iter_finetuning_rows(kept, "asked")}


def test_a_run_without_a_model_has_none(kept):
    assert not list(data_export.iter_finetuning_rows(kept, samples.LONG_ID))
    assert not list(data_export.iter_finetuning_rows(kept, "empty"))


def test_the_order_is_that_of_steps_and_calls_whoever_came_first(fresh):
    records = fresh.journal("run")
    for step, call in ((3, "0"), (1, "1"), (10, "0"), (1, "0"), (1, "10"), (1, "2"), (2, "0")):
        records.write(replied(step, call, f"{step}/{call}"))
    assert [record["reply"] for record in made(fresh)] == ["1/0", "1/1", "1/2", "1/10", "2/0", "3/0", "10/0"]


def test_what_was_asked_again_after_a_cut_counts_once_as_it_was_used(fresh):
    fresh.journal("run").write(replied(1, text="unused"), replied(1, text="used"))
    assert [record["reply"] for record in made(fresh)] == ["used"]


def test_what_judges_and_gates_asked_is_left_out(fresh):
    fresh.journal("run").write(replied(1), replied(1, "0/0"), replied(1, "0/gate/0"))
    assert len(made(fresh)) == 1


def test_of_several_children_the_best_stands_for_the_reply(fresh):
    records = fresh.journal("run")
    records.write(begun(1, "0.0"), replied(1), judged("1.0", None), judged("1.1", 3.0), judged("1.2", 2.0))
    records.write(applied(1, child("1.0", "reject"), child("1.1"), child("1.2")))
    (record,) = made(fresh)
    assert (record["candidate"], record["score"], record["improved"]) == ("1.1", 3.0, True)


def test_a_step_that_was_cut_is_neither_better_nor_worse(fresh):
    fresh.journal("run").write(begun(1, "0.0"), begun(2, "0.0"), replied(1), replied(2), judged("2.0", 5.0))
    first, second = made(fresh)
    assert (first["improved"], first["failure"], first["parent_score"]) == (None, "the iteration was not finished", 1.0)
    assert (second["improved"], second["score"]) == (None, 5.0)


def test_a_child_that_a_screen_kept_out_has_its_reason(fresh):
    unjudged = candidate("1.0")
    fresh.journal("run").write(begun(1, "0.0"), replied(1), applied(1, child("1.0", "reject", unjudged=unjudged)))
    (record,) = made(fresh)
    assert (record["improved"], record["failure"]) == (False, "rejected for a reason")


def test_hostile_replies_are_plain_json(kept):
    (record,) = data_export.iter_finetuning_rows(kept, "hostile")
    assert json.loads(json.dumps(record))["reply"] == samples.SCRIPT
