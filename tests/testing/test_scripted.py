"""A scripted model answers by place, whoever comes first."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

import pytest

from atoll import errors, llm
from atoll.evaluation import Cost
from atoll.journal import CallCache, NullJournal
from atoll.testing import RandomDelays, ScriptedLLM, assertions


@contextmanager
def at(step: int, prefix: str = "") -> Iterator[CallCache]:
    ledger = CallCache(step, 0, NullJournal(), {}, prefix)
    token = CallCache.current.set(ledger)
    try:
        yield ledger
    finally:
        CallCache.current.reset(token)


def test_texts_are_found_by_step_and_call_whatever_the_order() -> None:
    model = ScriptedLLM({(1, 0): "a", (1, "1"): "b", (2, "d0/0"): "c"})
    durable = llm.JournaledLLM(model)
    with at(2, "d0/"):
        assert durable("last first").text == "c"
    with at(1):
        assert [durable("one").text, durable("two").text] == ["a", "b"]
    assert model.requests == [(2, "d0/0"), (1, "0"), (1, "1")]


def test_a_place_that_the_script_lacks_says_so() -> None:
    with at(7), pytest.raises(errors.NotFound, match="step 7, call 0"):
        ScriptedLLM({(1, 0): "a"})("anything")


def test_a_function_is_told_step_call_and_prompt() -> None:
    model = ScriptedLLM(lambda step, call, prompt: f"{step} {call} {prompt}")
    with at(3, "0/"):
        assert model("why?").text == "3 0/0 why?"


def test_a_seed_gives_a_number_that_hangs_on_the_place_alone() -> None:
    def reply(seed: int, step: int, prompt: str) -> str:
        with at(step):
            return ScriptedLLM(seed)(prompt).text

    assert reply(0, 1, "one") == reply(0, 1, "another")
    assert len({reply(seed, step, "one") for seed in (0, 1) for step in (1, 2)}) == 4
    assert 0.0 <= float(reply(0, 1, "one")) < 1.0


def test_outside_of_a_step_there_is_one_place() -> None:
    model = ScriptedLLM({(0, 0): "alone"})
    assert [model("x").text, model("y").text] == ["alone", "alone"]


def test_at_chosen_places_there_is_no_reply_but_the_request_counts() -> None:
    model = ScriptedLLM(0, failing=[(2, 0)])
    with at(1):
        model("fine")
    with at(2), pytest.raises(OSError, match="step 2, call 0"):
        model("not fine")
    assert model.num_requests == 2


def test_requests_are_counted_whoever_makes_them() -> None:
    model = ScriptedLLM(0, delays=RandomDelays(0, 0.0001))

    def ask(step: int) -> None:
        with at(step):
            for _ in range(50):
                model("again")

    assertions.run_concurrently(ask, 8)
    assert model.num_requests == 400
    assert sorted(set(model.requests)) == [(step, "0") for step in range(8)]


def test_every_reply_costs_what_was_said() -> None:
    assert ScriptedLLM(0, cost=Cost(usd=2.0))("x").cost == Cost(usd=2.0)


def test_naps_are_as_long_each_time_at_the_same_place() -> None:
    def seconds(seed: int, place: str) -> float:
        since = perf_counter()
        RandomDelays(seed, 0.05)(place)
        return perf_counter() - since

    long = max(range(5), key=lambda seed: seconds(seed, "here"))
    short = min(range(5), key=lambda seed: seconds(seed, "here"))
    assert seconds(long, "here") > seconds(short, "here")
