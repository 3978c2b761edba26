"""A model is made by its name, and a name that is not understood is answered with what to write."""

from pathlib import Path

import pytest

from atoll import errors, llm
from atoll.testing.server import ModelServer


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.mark.parametrize("name", ["none", " none ", "None", "NONE\n"])
def test_none_is_no_model(name: str) -> None:
    assert llm.make_llm(name) is None
    assert llm.make_llm(name, temperature=0.5) is None


@pytest.mark.parametrize(
    ("name", "model", "base_url"),
    [
        ("openai:gpt-4o", "gpt-4o", "https://api.openai.com/v1"),
        (" openai : gpt-4o ", "gpt-4o", "https://api.openai.com/v1"),
        ("openai:qwen@http://127.0.0.1:8000/v1", "qwen", "http://127.0.0.1:8000/v1"),
        ("openai:qwen @ http://127.0.0.1:8000/v1/", "qwen", "http://127.0.0.1:8000/v1"),
        ("openai:org/model:free@https://openrouter.ai/api/v1", "org/model:free", "https://openrouter.ai/api/v1"),
        ("openai:@cf/meta/llama@http://[::1]:80/v1", "@cf/meta/llama", "http://[::1]:80/v1"),
        ("openai:model@20250101", "model@20250101", "https://api.openai.com/v1"),
    ],
)
def test_openai_names_a_model_and_maybe_where_it_is(
    name: str, model: str, base_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-some-key")
    model_by_name = llm.make_llm(name)
    assert isinstance(model_by_name, llm.OpenAICompatibleLLM)
    assert (model_by_name.model, model_by_name.base_url) == (model, base_url)


def test_a_model_made_by_name_answers_with_the_options_it_was_given() -> None:
    with ModelServer() as server:
        model = llm.make_llm(f"openai:some-model@{server.url}", temperature=0.0, max_tokens=5)
        assert model is not None
        assert model("hi").text == "An answer."
        data = server.requests[0].parse_data()
        assert (data["model"], data["temperature"], data["max_tokens"]) == ("some-model", 0.0, 5)


def test_a_replay_is_made_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    llm.RecordingLLM(llm.FunctionLLM(str.upper), path)("hi")
    replay = llm.make_llm(f" replay: {path} ", temperature=0.5)
    assert isinstance(replay, llm.RecordedLLM)
    assert replay("hi").text == "HI"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("", "The LLM has no name. Use none, openai:NAME"),
        ("  \n", "The LLM has no name. Use none"),
        (":gpt-4o", "The LLM has no name"),
        ("opnai:gpt-4o", "LLM 'opnai:gpt-4o' not found; did you mean openai:gpt-4o? Use none"),
        ("OpenAI", "LLM 'OpenAI' not found; did you mean openai:NAME"),
        ("openai:", "'openai:' does not name a model. Write openai:NAME or"),
        ("openai: @http://127.0.0.1:1/v1", "does not name a model"),
        ("gpt-4o", "LLM 'gpt-4o' not found; did you mean openai:gpt-4o"),
        ("http://127.0.0.1:80/v1", "LLM 'http://127.0.0.1:80/v1' not found; did you mean openai:NAME@http"),
        ("non", "did you mean none"),
        ("mailbox", "did you mean mailbox:DIR?"),
        ("python", "did you mean python:FILE.py:FUNCTION?"),
        ("none:x", "LLM 'none:x' not found; did you mean none"),
        ("record:file.jsonl", "did you mean recorded:file.jsonl"),
        ("recorded", "did you mean recorded:FILE"),
        ("replay:", "does not name a file"),
        ("replay:/no/such/file", "Recording /no/such/file cannot be read: No such file"),
        ("nobody:claude", "LLM 'nobody:claude' not found. Use none, openai:NAME, "),
        ("openai:m@127.0.0.1:80/v1", "The address '127.0.0.1:80/v1' of LLM 'm' is not valid. Begin it with http://"),
        ("openai:m@localhost", "Begin it with http://"),
        ("openai:m@", "Begin it with http://"),
        ("openai:m@ftp://127.0.0.1/v1", "is not an http:// or https:// address"),
        ("openai:m@http://", "is not an http:// or https:// address"),
        ("openai:m@http://127.0.0.1:port/v1", "'http://127.0.0.1:port/v1' is not a valid address"),
        ("openai:m@http://a b/v1", "is not an http:// or https:// address"),
        ("openai:m@http://127.0.0.1/v1?key=secret", "contains a '?' or a '#'"),
        ("openai:m@http://me:secret@127.0.0.1/v1", "The address of 127.0.0.1 contains an '@'"),
        ("openai:gpt-4o", "No API key for https://api.openai.com/v1. Set OPENAI_API_KEY"),
    ],
)
def test_a_name_that_is_not_understood_is_one_sentence_that_says_what_to_write(name: str, sentence: str) -> None:
    with pytest.raises(errors.SetupError) as caught:
        llm.make_llm(name)
    message = str(caught.value)
    assert sentence in message
    assert message.endswith(".")
    assert "\n" not in message
    assert "secret" not in message


def test_an_option_that_is_not_there_is_one_sentence_with_the_nearest() -> None:
    with pytest.raises(errors.SetupError, match="no option 'temprature'; did you mean temperature"):
        llm.make_llm("openai:m@http://127.0.0.1:1/v1", temprature=1)
    with pytest.raises(errors.SetupError, match=r"no option 'colour'\. Options are api_key, temperature"):
        llm.make_llm("openai:m@http://127.0.0.1:1/v1", colour=1)
