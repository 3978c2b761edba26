"""Calls that wait for a response."""

import threading

import pytest

from atoll import llm
from atoll.llm.ensemble import EnsembleLLM, EnsembleMember


def test_tracker_finds_call_that_waits_longest():
    is_started, can_end = threading.Semaphore(0), threading.Event()

    def model(prompt: str) -> llm.Response:
        is_started.release()
        can_end.wait(10)
        return llm.Response("text", "m")

    tracker = llm.CallTracker(model, "openai:m@http://host/v1")
    assert tracker.find_longest() is None
    threads = [threading.Thread(target=tracker, args=("prompt",)) for _ in range(2)]
    for thread in threads:
        thread.start()
        assert is_started.acquire(timeout=10)
    call = tracker.find_longest()
    assert call is not None
    assert (call.model, call.num_calls) == ("openai:m", 2)
    assert call.seconds >= 0
    can_end.set()
    for thread in threads:
        thread.join()
    assert tracker.find_longest() is None


def test_tracker_forgets_failed_call():
    def fail(prompt: str) -> llm.Response:
        raise OSError("down")

    tracker = llm.CallTracker(fail)
    with pytest.raises(OSError, match="down"):
        tracker("prompt")
    assert tracker.find_longest() is None


def test_tracker_names_selected_member_of_ensemble():
    names = list[str]()

    def model(prompt: str) -> llm.Response:
        call = tracker.find_longest()
        names.append(call.model if call else "")
        return llm.Response("text", "m")

    tracker = llm.CallTracker(EnsembleLLM([EnsembleMember("openai:a", model), EnsembleMember("openai:b", model)]))
    tracker("prompt")
    token = EnsembleLLM.selected.set("openai:b")
    try:
        tracker("prompt")
    finally:
        EnsembleLLM.selected.reset(token)
    assert names == ["openai:a", "openai:b"]
