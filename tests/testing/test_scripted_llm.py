"""Scripted LLM: responses depend on the position, not on arrival."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

import pytest

from atoll import errors, llm
from atoll.evaluation import Cost
from atoll.journal import CallCache, NullJournal
from atoll.testing import RandomDelays, ScriptedLLM, fakes


@contextmanager
def open_iteration(step: int, prefix: str = "") -> Iterator[CallCache]:
    call_cache = CallCache(step, 0, NullJournal(), {}, prefix)
    token = CallCache.current.set(call_cache)
    try:
        yield call_cache
    finally:
        CallCache.current.reset(token)


def test_responses_are_found_by_iteration_and_call() -> None:
    model = ScriptedLLM({(1, 0): "a", (1, "1"): "b", (2, "d0/0"): "c"})
    journaled = llm.JournaledLLM(model)
    with open_iteration(2, "d0/"):
        assert journaled("last first").text == "c"
    with open_iteration(1):
        assert [journaled("one").text, journaled("two").text] == ["a", "b"]
    assert model.requests == [(2, "d0/0"), (1, "0"), (1, "1")]


def test_missing_position_is_not_found() -> None:
    with open_iteration(7), pytest.raises(errors.NotFound, match="iteration 7, call 0"):
        ScriptedLLM({(1, 0): "a"})("anything")


def test_script_function_gets_iteration_call_and_prompt() -> None:
    model = ScriptedLLM(lambda step, call, prompt: f"{step} {call} {prompt}")
    with open_iteration(3, "0/"):
        assert model("why?").text == "3 0/0 why?"


def test_seeded_response_depends_only_on_position() -> None:
    def reply(seed: int, step: int, prompt: str) -> str:
        with open_iteration(step):
            return ScriptedLLM(seed)(prompt).text

    assert reply(0, 1, "one") == reply(0, 1, "another")
    assert len({reply(seed, step, "one") for seed in (0, 1) for step in (1, 2)}) == 4
    assert 0.0 <= float(reply(0, 1, "one")) < 1.0


def test_calls_outside_iterations_share_one_position() -> None:
    model = ScriptedLLM({(0, 0): "alone"})
    assert [model("x").text, model("y").text] == ["alone", "alone"]


def test_failing_position_raises_and_is_counted() -> None:
    model = ScriptedLLM(0, failing=[(2, 0)])
    with open_iteration(1):
        model("fine")
    with open_iteration(2), pytest.raises(OSError, match="iteration 2, call 0"):
        model("not fine")
    assert model.num_requests == 2


def test_concurrent_requests_are_counted() -> None:
    model = ScriptedLLM(0, delays=RandomDelays(0, 0.0001))

    def send(step: int) -> None:
        with open_iteration(step):
            for _ in range(50):
                model("again")

    fakes.run_concurrently(send, 8)
    assert model.num_requests == 400
    assert sorted(set(model.requests)) == [(step, "0") for step in range(8)]


def test_response_has_given_cost() -> None:
    assert ScriptedLLM(0, cost=Cost(usd=2.0))("x").cost == Cost(usd=2.0)


def test_random_delays_depend_on_seed_and_position() -> None:
    def measure(seed: int, position: str) -> float:
        start = perf_counter()
        RandomDelays(seed, 0.05)(position)
        return perf_counter() - start

    long = max(range(5), key=lambda seed: measure(seed, "here"))
    short = min(range(5), key=lambda seed: measure(seed, "here"))
    assert measure(long, "here") > measure(short, "here")
