"""Yield of LLM calls, from the records of a run."""

from typing import Any

import atoll
from atoll import store
from atoll.journal import Record
from atoll.runs import summary


def reply(step: int, call: str = "0") -> Record:
    return Record("replied", step, 0, {"text": "", "call": call, "request": "r"})


def evaluated(step: int, content: str, *, label: str = "0", paid: bool = True, **meta: Any) -> Record:
    data = {"id": f"{step}.{label}", "content": content, "label": label, "paid": paid, "meta": meta}
    return Record("judged", step, 0, {**data, "evaluation": {"score": 1.0}})


def test_evaluations_on_test_data_follow_the_end():
    ended, called = Record("ended", 1, -1, {"reason": "score 1 reached"}), Record("called", 0, -1, {"part": "test"})
    with store.Store("sqlite://") as run_store:
        run_id = run_store.create_run()
        run_store.journal(run_id).write(Record("started", 0, -1, {}), called)
        assert summary.find_end_record(run_store, run_id) is None
        run_store.journal(run_id).write(ended, called)
        end_record = summary.find_end_record(run_store, run_id)
        assert end_record is not None
        assert end_record.data["reason"] == "score 1 reached"
        run_store.journal(run_id).write(Record("started", 1, -1, {}), called)  # resumed
        assert summary.find_end_record(run_store, run_id) is None


def compute_yield(*records: Record) -> summary.CallYield | None:
    with store.Store("sqlite://") as run_store:
        run_id = run_store.create_run()
        run_store.journal(run_id).write(*records)
        return summary.compute_yield(run_store, run_id)


def test_yield_counts_distinct_candidates_of_calls():
    assert compute_yield(
        reply(1),
        evaluated(1, "a", engine="llm"),
        reply(2),
        reply(2, "1"),
        evaluated(2, "b", engine="diff", is_repaired=True),
        reply(3),
        evaluated(3, "b", engine="llm"),  # the same again, issued before it was known
        reply(4),
        evaluated(4, "a", engine="llm", paid=False),
        reply(5),
        evaluated(5, "x" * 10_000, engine="llm"),
        reply(6),
        evaluated(6, "y" * 10_000, engine="llm"),
        reply(7),
        evaluated(7, "z", engine="llm", label="d0"),  # by the tuner, to see whether it is a new best
    ) == summary.CallYield(evaluated=5, calls=8, repairs=1)


def test_yield_ignores_other_calls_and_other_mutators():
    assert compute_yield(
        reply(1),
        reply(1, "0/0"),  # of an evaluator
        evaluated(1, "a", engine="llm"),
        evaluated(2, "b", engine="tuner"),
        reply(2, "0/gate/0"),
        reply(3),
        evaluated(3, "c", engine="tuner"),  # after a response that could not be used
        evaluated(3, "d", label="d0"),
    ) == summary.CallYield(evaluated=1, calls=2, repairs=0)


def test_yield_counts_plans_of_conversations():
    assert compute_yield(
        reply(1),
        evaluated(1, "a", label="d0", conversation=0, turn=0),
        reply(1, "1"),
        evaluated(1, "b", label="d1", conversation=0, turn=1),
        evaluated(1, "a", paid=False, conversation=0, turn=0),
        evaluated(1, "b", label="1", paid=False, conversation=0, turn=1),
    ) == summary.CallYield(evaluated=2, calls=2, repairs=0)


def test_run_without_calls_has_no_yield():
    assert compute_yield(evaluated(1, "a", engine="syntax")) is None


def test_yield_in_words():
    assert str(summary.CallYield(10, 12, 2)) == "0.83: 10 candidates evaluated from 12 LLM calls, 2 after a repair"
    assert str(summary.CallYield(1, 1, 0)) == "1.00: 1 candidate evaluated from 1 LLM call"


def test_result_of_evolve_has_yield():
    texts = iter(["a longer text", "a longer text", "an even longer text", "a longer text"])

    def answer(prompt: str) -> str:
        return f"```\n{next(texts)}\n```"

    result = atoll.evolve("a text", lambda text: float(len(text)), llm=answer, budget="4calls")
    assert result.cost.llm_calls == 4
    assert result.cost.llm_yield == 0.5
    assert "yield" in str(result)
    assert atoll.evolve("a = 1.0", lambda text: 1.0, budget="3evals").cost.llm_yield is None
