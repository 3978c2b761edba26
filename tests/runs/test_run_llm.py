"""When a model is given up."""

import pytest

from atoll import llm
from atoll.runs import run_llm


class Moody:
    """Replies or fails, as it is told."""

    def __init__(self, *moods: int | None) -> None:
        self._moods = list(moods)

    def __call__(self, prompt: str) -> llm.Response:
        status = self._moods.pop(0)
        if status == 200:
            return llm.Response("yes", "moody")
        raise llm.LLMError("no reply", status=status)


def call_repeatedly(model: run_llm.LLMFailureLimit, times: int) -> None:
    for _ in range(times):
        with pytest.raises(llm.LLMError):
            model("?")


def test_failure_limit_stops_after_few_refusals():
    model = run_llm.LLMFailureLimit(Moody(401, 401, 401))
    call_repeatedly(model, 2)
    assert not model.stop_reason
    call_repeatedly(model, 1)
    assert "3 times in a row: no reply" in model.stop_reason


def test_failure_limit_restarts_count_after_response_or_other_error():
    model = run_llm.LLMFailureLimit(Moody(401, 401, 500, 401, 401, 200, 401, 401))
    call_repeatedly(model, 5)
    assert model("?").text == "yes"
    call_repeatedly(model, 2)
    assert not model.stop_reason


def test_failure_limit_stops_after_many_failures():
    model = run_llm.LLMFailureLimit(Moody(*[500] * run_llm.MAX_FAILURES))
    call_repeatedly(model, run_llm.MAX_FAILURES - 1)
    assert not model.stop_reason
    call_repeatedly(model, 1)
    assert model.stop_reason


def test_failure_limit_makes_no_call_after_stop():
    model = run_llm.LLMFailureLimit(Moody(404, 404, 404))
    call_repeatedly(model, 6)
