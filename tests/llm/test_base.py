"""JournaledLLM stores every response before it is used and pays for none twice."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from atoll import errors, journal, llm
from atoll.evaluation import Cost
from atoll.journal import CallCache
from atoll.store import memory
from atoll.testing import FailingJournal, ScriptedLLM


@contextmanager
def step(records: journal.Journal, number: int = 3, prefix: str = "") -> Iterator[CallCache]:
    """Enters a step as a worker does, with what the journal holds of it."""
    stored = {record.data["call"]: record.data for record in records.read() if record.step == number}
    ledger = CallCache(number, 0, journal.CheckedJournal(records), stored, prefix)
    token = CallCache.current.set(ledger)
    try:
        yield ledger
    finally:
        CallCache.current.reset(token)


def test_outside_of_a_step_the_model_is_simply_asked() -> None:
    model = ScriptedLLM({(0, 0): "hello"})
    durable = llm.JournaledLLM(model)
    assert [durable("hi").text, durable("hi").text] == ["hello", "hello"]
    assert model.num_requests == 2


def test_a_reply_comes_back_whole_from_the_model_and_from_the_journal() -> None:
    records, cost = memory.MemoryJournal(), Cost(0.5, 10, 5, 0.001)
    replies = []
    for _ in range(2):
        with step(records):
            replies.append(llm.JournaledLLM(ScriptedLLM({(3, 0): "the answer\n"}, cost=cost))("a question"))
    assert replies == [llm.Response("the answer\n", "scripted", cost)] * 2
    assert len(records.records) == 1


def test_a_stored_reply_is_not_asked_for_again() -> None:
    records, model = memory.MemoryJournal(), ScriptedLLM(0)
    for _ in range(3):
        with step(records):
            llm.JournaledLLM(model)("a question")
    assert model.requests == [(3, "0")]


def test_another_prompt_is_asked() -> None:
    records, model = memory.MemoryJournal(), ScriptedLLM(lambda step, call, prompt: f"on {prompt}")
    for prompt in ("one", "two"):
        with step(records):
            assert llm.JournaledLLM(model)(prompt).text == f"on {prompt}"
    assert model.num_requests == 2


def test_the_step_is_told_what_its_replies_cost() -> None:
    records, model = memory.MemoryJournal(), ScriptedLLM(0, cost=Cost(0.5, 10, 5, 0.25))
    for _ in range(2):
        with step(records) as ledger:
            for prompt in ("one", "two"):
                llm.JournaledLLM(model)(prompt)
        assert ledger.cost == Cost(1.0, 20, 10, 0.5, 2)


def test_a_model_that_raises_leaves_nothing_in_the_journal() -> None:
    records = memory.MemoryJournal()
    with step(records), pytest.raises(OSError, match="failure at iteration 3, call 0"):
        llm.JournaledLLM(ScriptedLLM(0, failing=[(3, 0)]))("a question")
    assert records.records == []


def test_a_reply_that_cannot_be_stored_is_not_read() -> None:
    records = FailingJournal(memory.MemoryJournal(), 0)
    with step(records), pytest.raises(errors.JournalFailed):
        llm.JournaledLLM(ScriptedLLM(0))("a question")
