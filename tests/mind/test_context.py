"""Agent contexts: read, write and restore a checkpoint; a chat provider as an LLM."""

import json
from types import SimpleNamespace

import pytest

from atoll import errors
from atoll.mind import context

LINES = [
    {"role": "_system_prompt", "content": "be brief"},
    {"role": "user", "content": "go"},
    {"role": "_checkpoint", "id": 0},
    {"role": "assistant", "content": "gone"},
    {"role": "_usage", "token_count": 12},
    {"role": "_checkpoint", "id": 1},
]


def test_context_round_trips():  # A20
    line = context.from_lines((json.dumps(message) for message in LINES), "W1")
    assert [json.loads(message) for message in context.to_lines(line)] == LINES
    assert line.checkpoint.line == 6
    assert line.agent_prompts == ("gone",)


def test_from_lines_stops_at_checkpoint():  # A20
    line = context.from_lines((json.dumps(message) for message in LINES), "W1", checkpoint=0)
    assert list(line.context) == LINES[:3]
    assert context.with_checkpoint(line, 7).context[-1] == {"role": "_checkpoint", "id": 7}
    with pytest.raises(errors.NotFound, match="no checkpoint 9"):
        context.from_lines((json.dumps(message) for message in LINES), "W1", checkpoint=9)


def test_from_lines_rejects_line_without_role():
    with pytest.raises(errors.SetupError, match="Line 1"):
        context.from_lines(["[]"], "W1")


def test_chat_provider_llm_joins_stream_parts():  # A20
    class Stream:
        usage = SimpleNamespace(input=3, output=2)

        async def __aiter__(self):
            for text in ("Hel", "lo"):
                yield SimpleNamespace(text=text)
            yield SimpleNamespace(arguments="{}")  # a part of another kind

    class Provider:
        model_name = "echo"

        async def generate(self, system_prompt, tools, history):
            assert history[0].role == "user"
            return Stream()

    reply = context.ChatProviderLLM(Provider())("hi")
    assert (reply.text, reply.model, reply.cost.tokens_in, reply.cost.tokens_out) == ("Hello", "echo", 3, 2)
