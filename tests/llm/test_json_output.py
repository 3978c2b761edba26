"""Answers with a shape: from fences, from prose, and after one repair."""

import json
from dataclasses import dataclass
from typing import Literal

import pydantic
import pytest

from atoll import llm
from atoll.llm import json_output
from atoll.llm.base import get_schema
from atoll.testing.server import Fault, ModelServer


@dataclass
class Point:
    x: int
    y: int = 0


def saying(*texts: str) -> tuple[llm.FunctionLLM, list[str]]:
    prompts, left = list[str](), list(texts)

    def answer(prompt: str) -> str:
        prompts.append(prompt)
        return left.pop(0)

    return llm.FunctionLLM(answer), prompts


@pytest.mark.parametrize(
    "text",
    [
        '{"x": 1, "y": 2}',
        '```json\n{"x": 1, "y": 2}\n```',
        'Sure! Here you are:\n```\n{"x": 1, "y": 2}\n```\nAnything else?',
        'It moved [3, 4] and is at {"x": 1, "y": 2} now.',
        'First I thought ```{"x": "no"}```, but then:\n```json\n{"x": 1, "y": 2}\n```',
        'a { brace, then {"x": 1, "y": 2}',
    ],
)
def test_json_is_found_wherever_it_stands(text):
    model, prompts = saying(text)
    assert llm.ask_json(model, "Where is it?", Point) == Point(1, 2)
    assert len(prompts) == 1
    assert prompts[0].startswith("Where is it?")
    assert '"x"' in prompts[0]


def test_a_list_is_a_shape_too():
    model, prompts = saying("The numbers are [1, 2, 3].")
    assert llm.ask_json(model, "Count.", list[int]) == [1, 2, 3]
    assert get_schema(prompts[0]) is None  # providers enforce schemas of objects only


class Verdict(pydantic.BaseModel):
    kind: Literal["yes", "no"]
    points: list[Point]
    reason: str | None = None
    counts: dict[str, int] = {}
    risk: float = pydantic.Field(default=0.5, ge=0, le=1)


def test_the_form_of_the_answer_is_in_the_prompt():
    model, prompts = saying('{"kind": "no", "points": []}')
    assert llm.ask_json(model, "Decide.", Verdict).kind == "no"
    form = {"kind": "yes | no", "points": [{"x": 0, "y": 0}], "reason": "...", "counts": {"...": 0}, "risk": 0.5}
    assert prompts[0].endswith(f"\n{json.dumps(form)}")


def test_a_wrong_answer_is_shown_once_with_its_error():
    model, prompts = saying('{"x": "one"}', '{"x": 1}')
    assert llm.ask_json(model, "Where is it?", Point) == Point(1)
    assert '{"x": "one"}' in prompts[1]
    assert "x: Input should be a valid integer" in prompts[1]


@pytest.mark.parametrize(("text", "message"), [("I do not know.", "it contains no JSON"), ('{"y": 1}', "x: ")])
def test_two_wrong_answers_are_unreadable(text, message):
    model, prompts = saying(text, text, "never asked")
    with pytest.raises(llm.InvalidResponse, match=message) as caught:
        llm.ask_json(model, "Where is it?", Point)
    assert (caught.value.text, len(prompts)) == (text, 2)


def test_a_provider_that_can_is_held_to_the_schema_and_one_that_cannot_is_asked_in_words():
    with ModelServer(lambda prompt, number: '{"x": 1}', faults={1: Fault(400)}) as server:
        model = llm.make_llm(f"openai:gpt-4o-mini@{server.url}")
        assert model is not None
        for _ in range(3):
            assert llm.ask_json(llm.JournaledLLM(model), "Where is it?", Point) == Point(1)
        sent = [request.parse_data().get("response_format", {}).get("type") for request in server.requests]
        can_enforce = sent[0] == "json_schema"
        assert sent == (["json_schema", "json_schema", None, None] if can_enforce else [None] * len(sent))


def test_a_prompt_with_a_schema_is_a_text_like_any_other(tmp_path):
    model = llm.RecordingLLM(llm.FunctionLLM(lambda prompt: '{"x": 1}'), tmp_path / "replies.jsonl")
    assert llm.ask_json(model, "Where is it?", Point) == Point(1)
    assert llm.ask_json(llm.RecordedLLM(tmp_path / "replies.jsonl"), "Where is it?", Point) == Point(1)


def test_all_json_of_a_text_comes_the_likeliest_first():
    assert next(json_output.extract_json('{"a": 1}')) == {"a": 1}
    assert list(json_output.extract_json('[1] and {"longer": [1, 2]}')) == [{"longer": [1, 2]}, [1]]
    assert list(json_output.extract_json("nothing")) == []
    assert list(json_output.extract_json('{"a": [1, 2], "b": "cu')) == [{"a": [1, 2]}, [1, 2]]
    assert list(json_output.extract_json('```json\n{"a": "x", "ids": ["1", "2')) == [{"a": "x", "ids": ["1"]}]
    assert list(json_output.extract_json('{"a": 1 oops')) == list(json_output.extract_json('{"a": "cu')) == []
    assert list(json_output.extract_json("[" * 100_000)) == []
    assert list(json_output.extract_json('{"a": ' + "9" * 5000)) == []
    assert json.dumps(next(json_output.extract_json("```json\n[]\n```"))) == "[]"
