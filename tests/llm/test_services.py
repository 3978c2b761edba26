"""Services by name: each is asked in its own language, with its own key, and misses its own package in words."""

import sys
from typing import Any

import pytest

from atoll import errors, llm
from atoll.llm.endpoint import SERVICES
from atoll.testing.server import Fault, ModelServer

KEY = "sk-service-0123456789"
KEY_HEADERS = {"google": "x-goog-api-key"}
PACKAGES = {"anthropic": "anthropic", "google": "google.genai"}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for service in SERVICES.values():
        for name in (*service.key_variables, service.url_variable):
            if name:
                monkeypatch.delenv(name, raising=False)


def make(service: str, server: ModelServer, **options: Any) -> Any:
    if service in PACKAGES:
        pytest.importorskip(PACKAGES[service])
    url = server.url.removesuffix("/v1") if service in PACKAGES else server.url
    return llm.make_llm(f"{service}:org/some-model@{url}", backoff_seconds=0.001, **options)


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_is_asked_with_its_own_key_and_counts_tokens(service, monkeypatch):
    monkeypatch.setenv(SERVICES[service].key_variables[0], KEY)
    with ModelServer(lambda prompt, number: f"You said: {prompt}") as server:
        reply = make(service, server, temperature=0.0, max_tokens=9)("hello there")
        assert reply.text == "You said: hello there"
        assert (reply.cost.tokens_in, reply.cost.tokens_out) == (2, 4)
        sent = server.requests[0].headers.get(KEY_HEADERS.get(service, "authorization"), "")
        assert sent.removeprefix("Bearer ") == KEY
        assert b'"temperature":0' in server.requests[0].body.replace(b" ", b"")


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize(("status", "requests"), [(503, 3), (401, 1)])
def test_every_service_obeys_the_one_policy(service, status, requests, monkeypatch):
    monkeypatch.setenv(SERVICES[service].key_variables[0], KEY)
    with ModelServer(faults=Fault(status)) as server:
        with pytest.raises(llm.LLMError) as caught:
            make(service, server)("hello there")
        assert (caught.value.status, server.num_requests) == (status, requests)
        if status == 401:
            assert f"Set a valid API key in {SERVICES[service].key_variables[0]}." in str(caught.value)


@pytest.mark.parametrize("service", [name for name, about in SERVICES.items() if not about.is_local])
def test_a_service_without_its_key_says_which_one(service):
    with pytest.raises(errors.SetupError, match=f"Set {SERVICES[service].key_variables[0]}"):
        llm.make_llm(f"{service}:some-model")


@pytest.mark.parametrize("service", [name for name, about in SERVICES.items() if about.is_local])
def test_a_server_of_ones_own_needs_no_key(service):
    model = llm.make_llm(f"{service}:some-model")
    assert isinstance(model, llm.OpenAICompatibleLLM)
    assert model.base_url.startswith("http://127.0.0.1:")


@pytest.mark.parametrize(("service", "package"), PACKAGES.items())
def test_a_package_that_is_missing_is_named_with_its_command(service, package, monkeypatch):
    monkeypatch.setenv(SERVICES[service].key_variables[0], KEY)
    for name in [name for name in sys.modules if name.startswith((package, f"pydantic_ai.models.{service}"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, f"pydantic_ai.providers.{service}", raising=False)
    for name in (package, *((f"{package}.client",) if service == "google" else ())):
        monkeypatch.setitem(sys.modules, name, None)
    model = llm.make_llm(f"{service}:some-model")
    assert model is not None
    with pytest.raises(errors.SetupError, match=rf"pip install 'atoll\[{service}\]'"):
        model("hello")


def test_the_legacy_key_of_google_counts_too(monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    assert isinstance(llm.make_llm("google:gemini-flash"), llm.HostedLLM)


def test_a_model_knows_its_price_and_the_length_of_its_replies(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    mini = llm.make_llm("openai:gpt-4o-mini", max_tokens=500)
    claude = llm.make_llm("anthropic:claude-3-5-haiku-latest")
    own = llm.make_llm("ollama:some-model")
    assert isinstance(mini, llm.HostedLLM)
    assert isinstance(claude, llm.HostedLLM)
    assert isinstance(own, llm.HostedLLM)
    assert (mini.price, mini.max_tokens) == (llm.Price(0.15, 0.6), 500)
    assert mini.price is not None
    assert mini.price.compute_usd(1_000_000, 500_000) == pytest.approx(0.45)
    assert claude.price is not None
    assert claude.price.output_mtok > claude.price.input_mtok > 0
    assert (own.price, own.max_tokens) == (None, None)


@pytest.mark.parametrize(
    ("option", "value", "sent"),
    [
        ("temperature", 0.0, ("temperature", 0.0)),
        ("top_p", 0.5, ("top_p", 0.5)),
        ("seed", 0, ("seed", 0)),
        ("max_tokens", 7, ("max_tokens", 7)),
        ("stream", True, ("stream", True)),
    ],
)
def test_a_sampling_option_is_sent_and_one_that_is_none_is_not(option, value, sent):
    with ModelServer() as server:
        make("vllm", server, **{option: value})("hello")
        make("vllm", server, **{option: None if option != "stream" else False})("hello")
        assert server.requests[0].parse_data()[sent[0]] == sent[1]
        assert sent[0] not in server.requests[1].parse_data() or server.requests[1].parse_data()[sent[0]] is False
