"""Any function of a prompt is a model."""

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from atoll import errors, llm
from atoll.evaluation import Cost
from atoll.llm import function_llm


def shout(prompt: str) -> str:
    time.sleep(0.01)
    return prompt.upper()


def test_the_text_of_a_function_is_a_reply_by_its_name() -> None:
    reply = llm.FunctionLLM(shout)("hello")
    assert (reply.text, reply.model) == ("HELLO", "shout")


def test_the_seconds_are_measured() -> None:
    cost = llm.FunctionLLM(shout)("hello").cost
    assert 0.01 <= cost.seconds < 5
    assert cost == Cost(seconds=cost.seconds)


def test_a_whole_reply_is_passed_on_and_only_seconds_that_are_missing_are_measured() -> None:
    response = llm.Response("text", "me", Cost(2.5, 1, 2, 0.5))
    assert llm.FunctionLLM(lambda prompt: response)("") == response
    reply = llm.FunctionLLM(lambda prompt: llm.Response("text", "me", Cost(usd=0.5)))("")
    assert reply.cost.seconds > 0
    assert reply.cost.usd == 0.5


def test_an_object_that_can_be_called_has_the_name_of_its_class_or_the_one_it_is_given() -> None:
    class Oracle:
        def __call__(self, prompt: str) -> str:
            return "42"

    assert llm.FunctionLLM(Oracle())("").model == "Oracle"
    assert llm.FunctionLLM(Oracle(), name="Delphi")("").model == "Delphi"


def test_what_the_function_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        llm.FunctionLLM(lambda prompt: str(1 / 0))("")


@pytest.mark.parametrize(("result", "kind"), [(None, "NoneType"), (42, "int"), (b"text", "bytes"), (["text"], "list")])
def test_a_function_that_returns_no_text_is_told_so(result: Any, kind: str) -> None:
    with pytest.raises(errors.SetupError, match=f"returned {kind}. Return a str or an llm.Response"):
        llm.FunctionLLM(lambda prompt: result)("")


def test_an_async_function_is_told_so() -> None:
    async def answer(prompt: str) -> str:
        return prompt

    with pytest.raises(errors.SetupError, match="answer is async"):
        llm.FunctionLLM(answer)("")  # type: ignore[arg-type]


def test_what_is_no_function_is_told_so() -> None:
    with pytest.raises(errors.SetupError, match="'text' is not a function"):
        llm.FunctionLLM("text")  # type: ignore[arg-type]


def test_a_file_imports_modules_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "neighbour_of_answer.py").write_text("TEXT = 'hello'\n")
    (tmp_path / "answer.py").write_text(
        "def answer(prompt):\n    import neighbour_of_answer\n    return neighbour_of_answer.TEXT\n"
    )
    assert function_llm.load_function_llm(f"{tmp_path}/answer.py:answer")("").text == "hello"


def test_errors_of_a_file_are_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "answer.py"
    with pytest.raises(errors.SetupError, match=r"answer.py of 'python:.*' not found. Check the path."):
        function_llm.load_function_llm(f"{path}:answer")
    for text in ("import no_such_module_x\n", "def answer(:\n"):
        path.write_text(text)
        with pytest.raises(errors.SetupError, match=r"does not load: .* Check its code and imports\."):
            function_llm.load_function_llm(f"{path}:answer")
