"""LLMGenerator: at most K candidates, or a known error (G73 to G81)."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll import errors, llm
from atoll.governed.agent.generators import CandidateParseFailed, GenerateOptions, InvalidK, LLMFailed, LLMGenerator


class Model:
    def __init__(self, *replies: str) -> None:
        self.replies, self.prompts = list(replies), list[str]()

    def __call__(self, prompt: str) -> llm.Response:
        self.prompts.append(prompt)
        return llm.Response(self.replies.pop(0), "a-model")


def generate_payloads(*replies: str, k: int = 3, options: GenerateOptions | None = None) -> list[Any]:
    return [
        candidate.payload for candidate in LLMGenerator(Model(*replies)).generate("go", k, options or GenerateOptions())
    ]


@pytest.mark.parametrize(
    "reply",
    [
        '[{"a": 1}, {"a": 2}]',
        '```json\n[{"a": 1}, {"a": 2}]\n```',
        'Here they are:\n```\n[{"a": 1}, {"a": 2}]\n```\nEnjoy.',
        'I propose [{"a": 1}, {"a": 2}] and no more.',
        '{"candidates": [{"a": 1}, {"a": 2}]}',
    ],
)
def test_array_is_extracted_from_any_position(reply: str) -> None:  # G74
    assert generate_payloads(reply) == [{"a": 1}, {"a": 2}]


def test_generate_returns_at_most_k_unique_candidates() -> None:  # G81
    assert generate_payloads("[1, 1, 2, 3, 4]", k=3) == [1, 2]  # the first three of a response, without the duplicate
    assert generate_payloads('["x"]', k=3) == ["x"]


def test_calls_share_the_number_of_candidates() -> None:  # G76
    model = Model("[1, 2]", "[2, 3]")
    result = LLMGenerator(model).generate("go", 4, GenerateOptions(calls=2))
    assert [candidate.payload for candidate in result] == [1, 2, 3]
    assert all("array of 2 candidates" in prompt for prompt in model.prompts)


def test_unique_ids_are_kept() -> None:
    reply = json.dumps([{"id": "a"}, {"id": "a", "x": 1}, {"id": 5}, {"y": 1}])
    assert [candidate.id for candidate in LLMGenerator(Model(reply)).generate("go", 4)] == ["a", "c1", "c2", "c3"]


def test_prompt_contains_all_options() -> None:
    model = Model("[1]")
    options = GenerateOptions(roles=["critic"], constraints=["be short"], history=[{"payload": 7, "fate": "rejected"}])
    result = LLMGenerator(model).generate({"task": "名"}, 1, options)
    for part in ("critic", "be short", '"fate": "rejected"', '{"task": "名"}'):
        assert part in model.prompts[0]
    assert (result[0].meta["model"], result[0].meta["roles"]) == ("a-model", ["critic"])


def test_unreadable_response_is_requested_again_with_error() -> None:
    model = Model("no idea", "[1]")
    assert LLMGenerator(model).generate("go", 1)[0].payload == 1
    assert "could not be used" in model.prompts[1]
    with pytest.raises(CandidateParseFailed, match="no JSON array") as caught:
        generate_payloads("no", "idea")
    assert caught.value.text == "idea"


def test_llm_failure_differs_from_parse_failure() -> None:  # G9
    def model(prompt: str) -> llm.Response:
        raise llm.LLMError("status 500")

    with pytest.raises(LLMFailed, match="status 500") as caught:
        LLMGenerator(model).generate("go", 1)
    assert isinstance(caught.value.__cause__, llm.LLMError)


@pytest.mark.parametrize("k", [0, -1])
def test_k_below_one_is_rejected(k: int) -> None:  # G8
    with pytest.raises(InvalidK):
        generate_payloads("[]", k=k)


@pytest.mark.parametrize(("template", "message"), [("$Other", r"names \$Other"), ("5 $ each", "without a name")])
def test_template_with_unknown_placeholder_is_rejected(template: str, message: str) -> None:  # G75
    with pytest.raises(errors.SetupError, match=message):
        LLMGenerator(Model(), template)


@given(st.text())
def test_any_response_gives_candidates_or_known_error(reply: str) -> None:
    with contextlib.suppress(CandidateParseFailed):
        assert len(generate_payloads(reply, k=2, options=GenerateOptions(repairs=0))) <= 2
