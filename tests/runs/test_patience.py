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


def asked(model: run_llm.LLMFailureLimit, times: int) -> None:
    for _ in range(times):
        with pytest.raises(llm.LLMError):
            model("?")


def test_refusals_in_a_row_end_it_soon():
    model = run_llm.LLMFailureLimit(Moody(401, 401, 401))
    asked(model, 2)
    assert not model.stop_reason
    asked(model, 1)
    assert "3 times in a row: no reply" in model.stop_reason


def test_a_reply_or_another_fault_between_them_begins_the_count_anew():
    model = run_llm.LLMFailureLimit(Moody(401, 401, 500, 401, 401, 200, 401, 401))
    asked(model, 5)
    assert model("?").text == "yes"
    asked(model, 2)
    assert not model.stop_reason


def test_faults_of_any_kind_end_it_after_a_while():
    model = run_llm.LLMFailureLimit(Moody(*[500] * run_llm.MAX_FAILURES))
    asked(model, run_llm.MAX_FAILURES - 1)
    assert not model.stop_reason
    asked(model, 1)
    assert model.stop_reason


def test_once_it_is_lost_nobody_is_asked_any_more():
    model = run_llm.LLMFailureLimit(Moody(404, 404, 404))
    asked(model, 6)
