"""A server that speaks OpenAI's chat completions is a model; what goes wrong is a sentence that says what to do."""

import contextlib
import gc
import json
import socketserver
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from threading import Thread

import pytest

from atoll import errors, llm
from atoll.testing import fakes
from atoll.testing.server import Fault, ModelServer

KEY = "sk-secret/0123456789+abcdef"
QUICK: Mapping[str, float] = {"backoff_seconds": 0.001, "timeout_seconds": 5.0}
NO_TEXT = {"index": 0, "message": {"role": "assistant", "content": None}, "finish_reason": "length"}

REFUSAL = {**NO_TEXT, "message": {"role": "assistant", "content": None, "refusal": "I will not."}}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def model_of(server: ModelServer, name: str = "some-model", **options: float) -> llm.OpenAICompatibleLLM:
    return llm.OpenAICompatibleLLM(name, base_url=server.url, api_key=KEY, **{**QUICK, **options})  # type: ignore[arg-type]


def completion(**changes: object) -> str:
    return json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [], **changes})


def test_a_reply_has_text_model_seconds_and_tokens() -> None:
    with ModelServer(lambda prompt, number: "three words long") as server:
        reply = model_of(server)("two words")
        assert (reply.text, reply.model) == ("three words long", "some-model")
        assert (reply.cost.tokens_in, reply.cost.tokens_out, reply.cost.usd, reply.cost.calls) == (2, 3, 0.0, 0)
        assert 0 < reply.cost.seconds < 5


def test_a_model_with_a_known_price_costs_dollars() -> None:
    with ModelServer(lambda prompt, number: "word " * 1000) as server:
        cost = model_of(server, "gpt-4o-mini")("word " * 1000).cost
        assert cost.usd == pytest.approx((1000 * 0.15 + 1000 * 0.60) / 1e6)


def test_tokens_of_a_server_that_does_not_count_them_are_estimated_and_priced() -> None:
    body = completion(choices=[{**NO_TEXT, "message": {"role": "assistant", "content": "hi"}}])
    with ModelServer(faults=Fault(body=body)) as server:
        cost = model_of(server, "gpt-4o-mini")("prompt").cost
        assert (cost.tokens_in, cost.tokens_out) == (2, 1)
        assert cost.usd == pytest.approx(9e-07)


def test_the_prompt_is_the_one_message_and_options_that_are_none_are_not_sent() -> None:
    with ModelServer() as server:
        model_of(server)("a prompt")
        assert server.requests[0].parse_data() == {
            "model": "some-model",
            "messages": [{"role": "user", "content": "a prompt"}],
            "stream": False,
        }


def test_a_temperature_of_zero_is_sent() -> None:
    with ModelServer() as server:
        model_of(server, temperature=0.0, max_tokens=7)("a prompt")
        data = server.requests[0].parse_data()
        assert (data["temperature"], data["max_tokens"]) == (0.0, 7)


def test_the_key_is_sent_and_a_server_of_ones_own_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer() as server:
        model_of(server)("a prompt")
        llm.OpenAICompatibleLLM("some-model", base_url=server.url)("a prompt")
        monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}2\n")
        llm.OpenAICompatibleLLM("some-model", base_url=server.url)("a prompt")
        sent = [request.headers["authorization"] for request in server.requests]
        assert sent == [f"Bearer {KEY}", "Bearer no-key", f"Bearer {KEY}2"]


def test_the_address_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert llm.OpenAICompatibleLLM("some-model")("a prompt").text == "An answer."


def test_openai_itself_needs_a_key() -> None:
    for base_url in (None, "https://api.openai.com/v1/"):
        with pytest.raises(errors.SetupError, match=r"No API key for .* Set OPENAI_API_KEY"):
            llm.OpenAICompatibleLLM("gpt-4o", base_url=base_url, api_key=" ")


@pytest.mark.parametrize("key", ["sk-two words", "sk-schlüssel", "sk-line\nbreak"])
def test_a_key_that_is_none_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(errors.SetupError, match="blanks or special characters") as caught:
        llm.OpenAICompatibleLLM("gpt-4o", api_key=key)
    assert "sk-" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"timeout_seconds": 0}, "timeout_seconds is 0. Set it to more than 0."),
        ({"timeout_seconds": float("inf")}, "timeout_seconds is inf. Set it to more than 0."),
        ({"retries": -1}, "retries is -1. Set it to 0 or more."),
        ({"backoff_seconds": -0.5}, "backoff_seconds is -0.5. Set it to 0 or more."),
        ({"temperature": float("nan")}, "temperature is nan. Set it to 0 or more."),
        ({"max_tokens": 0}, "max_tokens is 0. Set it to more than 0."),
    ],
)
def test_an_option_out_of_its_range_is_refused(options: dict[str, float], sentence: str) -> None:
    with pytest.raises(errors.SetupError) as caught:
        llm.OpenAICompatibleLLM("m", base_url="http://127.0.0.1:1/v1", **options)  # type: ignore[arg-type]
    assert str(caught.value) == sentence


def test_a_busy_server_is_asked_again() -> None:
    faults = {0: Fault(503), 1: Fault(429)}
    with ModelServer(faults=faults) as server:
        assert model_of(server)("a prompt").text == "An answer."
        assert server.prompts == ["a prompt"] * 3


@pytest.mark.parametrize("fault", [Fault(429), Fault(500), Fault(503), Fault(hangs_up=True), Fault(delay_seconds=9)])
def test_a_busy_broken_or_silent_server_is_given_up_after_three_tries(fault: Fault) -> None:
    with ModelServer(faults=fault) as server:
        with pytest.raises(llm.LLMError, match=r"Failed after 3 attempts\.$") as caught:
            model_of(server, timeout_seconds=0.1 if fault.delay_seconds else 5)("a prompt")
        assert caught.value.is_transient
        assert caught.value.status == (None if fault.status == 200 else fault.status)
        assert server.num_requests == 3


def test_the_pauses_double_and_are_not_shorter_than_the_server_wants() -> None:
    for fault, backoff_seconds in [(Fault(503), 0.05), (Fault(503, headers={"Retry-After-Ms": "75"}), 0.0)]:
        with ModelServer(faults=fault) as server:
            start = time.perf_counter()
            with pytest.raises(llm.LLMError):
                model_of(server, backoff_seconds=backoff_seconds)("a prompt")
            assert 0.15 <= time.perf_counter() - start < 20


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (Fault(400), "status 400, Bad Request. Change the option or the prompt that the server rejects."),
        (Fault(401), "status 401, Unauthorized. Set a valid API key in OPENAI_API_KEY."),
        (Fault(404), "status 404, Not Found. Check the name of the model and the address, which usually ends in /v1."),
        (Fault(404, body="<p>not\nhere</p>"), "status 404, <p>not here</p>. Check the name"),
        (Fault(429, body='{"error": {"message": "no money", "code": "insufficient_quota"}}'), "Top up the account."),
        (Fault(body="no JSON"), "Failed to decode response as JSON"),
        (Fault(body=""), "Failed to decode response as JSON"),
        (Fault(body="[]"), "expected JSON data. Check that the server supports OpenAI's chat completions API."),
        (Fault(body=completion()), "the list of choices is empty. Check that the server"),
        (Fault(body='{"choices": []}'), "Check that the server supports OpenAI's chat completions API."),
        (
            Fault(body=completion(choices=[NO_TEXT])),
            "the response is empty, with finish reason 'length'. Raise max_tokens.",
        ),
        (Fault(body=completion(choices=[REFUSAL])), "finish reason 'content_filter'. Change the prompt or the model."),
        (Fault(301), "301"),
    ],
)
def test_a_refusal_or_an_answer_that_is_none_is_final(fault: Fault, sentence: str) -> None:
    with ModelServer(faults=fault) as server:
        with pytest.raises(llm.LLMError) as caught:
            model_of(server)("a prompt")
        assert sentence in str(caught.value)
        assert str(caught.value).startswith(f"LLM some-model at {server.url} did not respond: ")
        assert not caught.value.is_transient
        assert server.num_requests == 1


def test_a_server_that_is_not_there_is_named() -> None:
    model = llm.OpenAICompatibleLLM("some-model", base_url="http://127.0.0.1:9/v1", backoff_seconds=0)
    with pytest.raises(llm.LLMError, match=r"at http://127\.0\.0\.1:9/v1 did not respond: .*Connection refused.* runs"):
        model("a prompt")


def test_a_prompt_with_half_a_character_is_sent_without_it() -> None:
    with ModelServer(lambda prompt, index: prompt) as server:
        assert model_of(server)("half \ud800").text == "half ?"


def test_a_long_page_of_an_error_is_cut() -> None:
    with ModelServer(faults=Fault(404, body="<html>" * 1000)) as server, pytest.raises(llm.LLMError) as caught:
        model_of(server)("a prompt")
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("status", [401, 500, 200])
@pytest.mark.parametrize("text", ["{}", "Bearer {}", "x" * 290 + "{}", '{{"error": {{"message": "{} is no key"}}}}'])
def test_a_key_that_the_server_repeats_is_not_shown(status: int, text: str) -> None:
    with ModelServer(faults=Fault(status, body=text.format(KEY))) as server, pytest.raises(llm.LLMError) as caught:
        model_of(server, retries=1)("a prompt")
    output = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(model_of(server))
    assert KEY[:9] not in output


def test_a_deadline_holds_for_a_server_that_sends_on_and_on() -> None:
    class Dripping(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            with contextlib.suppress(OSError):
                for _ in range(1000):
                    self.request.sendall(b" ")
                    time.sleep(0.01)

    with socketserver.TCPServer(("127.0.0.1", 0), Dripping) as server:
        Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        with pytest.raises(llm.LLMError, match=r"no response within 0\.1 seconds\. Raise timeout_seconds"):
            llm.OpenAICompatibleLLM("m", base_url=url, timeout_seconds=0.1, retries=0)("a prompt")


def test_64_threads_wait_at_the_same_time_over_kept_connections() -> None:
    with ModelServer(lambda prompt, number: prompt, faults=Fault(delay_seconds=0.2)) as server:
        model = model_of(server)
        for _ in range(2):
            start = time.perf_counter()
            texts = fakes.run_concurrently(lambda number: model(f"thread {number}").text, 64)
            assert texts == [f"thread {number}" for number in range(64)]
            assert time.perf_counter() - start < 10  # one after another would be 13 s
        assert server.num_connections <= 64


def test_a_server_that_was_started_again_is_asked_on_a_new_connection() -> None:
    with ModelServer() as server:
        model, port = model_of(server, retries=0), int(server.url.split(":")[2][:-3])
        model("a prompt")
    with ModelServer(lambda prompt, number: "again", port=port) as server:
        assert model("a prompt").text == "again"


def test_a_model_that_is_gone_closes_its_connections() -> None:
    with ModelServer() as server:
        model = model_of(server)
        model("a prompt")
        assert server.num_open == 1
        del model
        gc.collect()
        assert _soon(lambda: server.num_open == 0)


def test_a_proxy_is_used_for_other_machines_but_not_for_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(lambda prompt, number: "direct") as server, ModelServer(lambda prompt, number: "proxied") as proxy:
        monkeypatch.setenv("http_proxy", proxy.url[:-3])
        assert model_of(server)("a prompt").text == "direct"
        elsewhere = llm.OpenAICompatibleLLM("some-model", base_url="http://elsewhere.invalid/v1", retries=0)
        assert elsewhere("a prompt").text == "proxied"


def test_importing_the_package_imports_no_provider() -> None:
    heavy = "{'pydantic_ai', 'openai', 'httpx2', 'asyncio', 'urllib.request'}"
    code = f"import sys, atoll.llm; sys.exit(', '.join({heavy} & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def _soon(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + 60
    while not holds() and time.monotonic() < end:
        time.sleep(0.005)
    return holds()


@pytest.mark.parametrize("host", ["a..b", "x" * 70 + ".de", "\ud800"])
def test_host_that_cannot_exist_is_one_sentence(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atoll.llm.endpoint._START_SECONDS", 0.0)
    with pytest.raises(errors.SetupError, match="cannot be reached"):
        llm.OpenAICompatibleLLM("m", base_url=f"http://{host}/v1", api_key=KEY).check_connection()
