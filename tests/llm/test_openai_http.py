"""A server of one's own is asked by plain HTTP: what it may say, and what that costs."""

import email.utils
import json
import subprocess
import sys
import time
from typing import Any

import pytest

from atoll import llm
from atoll.testing.server import Fault, ModelServer


def model_of(server: ModelServer, **options: Any) -> llm.OpenAICompatibleLLM:
    return llm.OpenAICompatibleLLM("some-model", base_url=server.url, **{"retries": 0, **options})


def completion(content: object, **more: Any) -> str:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return json.dumps({"choices": [choice], **more})


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("<think>\nwell\n</think>\nyes", "\nyes"),
        ("so <think>well</think> yes", "so  yes"),
        ("<think> is a tag", "<think> is a tag"),
        ("</think> yes", "</think> yes"),
        ("```\nre.sub('<think>.*</think>', '', x)\n```", "```\nre.sub('<think>.*</think>', '', x)\n```"),
    ],
)
def test_what_a_model_thought_first_is_left_out(content: str, text: str) -> None:
    with ModelServer(faults=Fault(body=completion(content))) as server:
        assert model_of(server)("a prompt").text == text


def test_token_count_that_no_float_can_hold_is_limited() -> None:
    body = completion("yes", usage={"prompt_tokens": 10**400, "completion_tokens": 1})
    with ModelServer(faults=Fault(body=body)) as server:
        response = model_of(server, price=llm.Price(1.0, 1.0))("a prompt")
    assert response.cost.usd >= 1e6


def test_impossible_retry_date_is_ignored() -> None:
    headers = {"retry-after": "Mon, 99999999999999999999 Jan 1 1:1:1"}
    with ModelServer(faults=Fault(429, headers=headers)) as server, pytest.raises(llm.LLMError) as caught:
        model_of(server)("a prompt")
    assert caught.value.retry_seconds is None


@pytest.mark.parametrize(
    "body",
    [
        completion(["parts"]),
        completion(None),
        completion({}),
        '{"choices": [null]}',
        '{"choices": {}}',
        '{"choices": [{"message": "yes"}]}',
        '{"choices": null}',
        "null",
        '"yes"',
        "1e999",
        "[" * 100_000,
    ],
)
def test_an_answer_of_another_shape_is_no_reply(body: str) -> None:
    with ModelServer(faults=Fault(body=body)) as server, pytest.raises(llm.LLMError) as caught:
        model_of(server)("a prompt")
    assert not caught.value.is_transient


@pytest.mark.parametrize("usage", [None, [], "much", {"prompt_tokens": "3"}, {"prompt_tokens": -3, "cost": None}])
def test_tokens_that_are_no_count_are_estimated(usage: object) -> None:
    with ModelServer(faults=Fault(body=completion("yes", usage=usage))) as server:
        cost = model_of(server)("a prompt").cost
    assert (cost.tokens_in, cost.tokens_out, cost.usd) == (2, 1, 0.0)


def test_a_gateway_may_tell_what_a_reply_cost() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "cost": 0.25}
    with ModelServer(faults=Fault(body=completion("yes", usage=usage))) as server:
        cost = model_of(server)("a prompt").cost
    assert (cost.tokens_in, cost.tokens_out, cost.usd) == (3, 4, 0.25)


@pytest.mark.parametrize("is_date", [False, True])
def test_a_rest_may_be_asked_for_in_seconds_or_until_a_time(is_date: bool) -> None:
    rest = email.utils.formatdate(time.time() + 3600, usegmt=True) if is_date else "3600"
    with ModelServer(faults=Fault(429, headers={"Retry-After": rest})) as server, pytest.raises(llm.LLMError) as caught:
        model_of(server)("a prompt")
    assert caught.value.retry_seconds == pytest.approx(3600, abs=60)


@pytest.mark.parametrize("rest", ["soon", "nan", "-1", "inf", ""])
def test_a_rest_that_is_no_time_is_none(rest: str) -> None:
    with ModelServer(faults=Fault(429, headers={"Retry-After": rest})) as server, pytest.raises(llm.LLMError) as caught:
        model_of(server)("a prompt")
    assert caught.value.retry_seconds is None


def test_a_server_of_ones_own_is_asked_without_an_sdk() -> None:
    heavy = "{'pydantic_ai', 'openai'}"
    code = (
        "import sys; from atoll import llm; llm.OpenAICompatibleLLM('m', base_url=sys.argv[1])('a prompt');"
        f"sys.exit(', '.join({heavy} & set(sys.modules)) or 0)"
    )
    with ModelServer() as server:
        subprocess.run([sys.executable, "-c", code, server.url], check=True, timeout=120)
