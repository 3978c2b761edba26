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
    made = llm.make_llm(name)
    assert isinstance(made, llm.OpenAICompatibleLLM)
    assert (made.model, made.base_url) == (model, base_url)


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
        ("", "The model has no name: understood are none, openai:NAME"),
        ("  \n", "The model has no name: understood are"),
        (":gpt-4o", "The model has no name"),
        ("opnai:gpt-4o", "There is no model 'opnai:gpt-4o', perhaps you mean openai:gpt-4o: understood are"),
        ("OpenAI", "There is no model 'OpenAI', perhaps you mean openai:NAME"),
        ("openai:", "'openai:' names no model: write openai:NAME or"),
        ("openai: @http://127.0.0.1:1/v1", "names no model"),
        ("gpt-4o", "There is no model 'gpt-4o', perhaps you mean openai:gpt-4o"),
        ("http://127.0.0.1:80/v1", "There is no model 'http://127.0.0.1:80/v1', perhaps you mean openai:NAME@http"),
        ("non", "perhaps you mean none"),
        ("none:x", "There is no model 'none:x', perhaps you mean none"),
        ("record:file.jsonl", "perhaps you mean recorded:file.jsonl"),
        ("recorded", "perhaps you mean recorded:FILE"),
        ("replay:", "names no file"),
        ("replay:/no/such/file", "Replies cannot be read from /no/such/file: No such file"),
        ("nobody:claude", "There is no model 'nobody:claude': understood are none, openai:NAME, "),
        ("openai:m@127.0.0.1:80/v1", "The address '127.0.0.1:80/v1' of model 'm' is none: begin it with http://"),
        ("openai:m@localhost", "begin it with http://"),
        ("openai:m@", "begin it with http://"),
        ("openai:m@ftp://127.0.0.1/v1", "is no http:// or https:// address"),
        ("openai:m@http://", "is no http:// or https:// address"),
        ("openai:m@http://127.0.0.1:port/v1", "The address 'http://127.0.0.1:port/v1' is none"),
        ("openai:m@http://a b/v1", "is no http:// or https:// address"),
        ("openai:m@http://127.0.0.1/v1?key=1", "has a '?' or a '#' in it"),
        ("openai:m@http://me:secret@127.0.0.1/v1", "The address of 127.0.0.1 has an '@' in it"),
        ("openai:gpt-4o", "There is no key for https://api.openai.com/v1: set OPENAI_API_KEY"),
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
    with pytest.raises(errors.SetupError, match="no option 'temprature', perhaps you mean temperature"):
        llm.make_llm("openai:m@http://127.0.0.1:1/v1", temprature=1)
    with pytest.raises(errors.SetupError, match="no option 'colour': there are api_key, temperature"):
        llm.make_llm("openai:m@http://127.0.0.1:1/v1", colour=1)
