"""A server that misbehaves on command: how many requests it gets, how long it takes, and what is said in the end."""

import time
from typing import Any, NamedTuple

import pytest

from atoll import llm
from atoll.testing import fakes
from atoll.testing.server import Fault, ModelServer

KEY = "sk-chaos-0123456789"
POLICY: dict[str, Any] = {"backoff_seconds": 0.02, "timeout_seconds": 0.3, "outage_seconds": 0.6}
PATIENT = {"timeout_seconds": 5.0, "outage_seconds": 10.0}  # a busy machine may hold up what a server answers at once
TRIES = 3  # of the policy: 1 + retries
SLACK_SECONDS = 10.0  # a busy machine; a hang would last 30 and more


class Case(NamedTuple):
    """Failure of every request, and the expected outcome.

    Attributes:
        requests: Exactly so many for one prompt.
        seconds: At most so long.
    """

    fault: Fault
    requests: int
    seconds: float
    expected_text: str
    options: dict[str, Any] = {}  # noqa: RUF012 - read only


CASES = {
    "500": Case(Fault(500), TRIES, 1.0, "status 500"),
    "429 without Retry-After": Case(Fault(429), TRIES, 1.0, "status 429"),
    "429 with Retry-After": Case(Fault(429, headers={"Retry-After-Ms": "100"}), TRIES, 1.5, "status 429"),
    "429 for an hour": Case(Fault(429, headers={"Retry-After": "3600"}), 1, 0.5, "asks to wait 3600 seconds"),
    "hang": Case(Fault(delay_seconds=30), TRIES, 2.0, "no response within 0.3 seconds", POLICY),
    "slow drip": Case(Fault(drip_seconds=0.2), TRIES, 2.0, "no response within 0.3 seconds", POLICY),
    "cut answer": Case(Fault(sent_fraction=0.6), TRIES, 1.0, "without sending complete message body"),
    "cut stream": Case(Fault(sent_fraction=0.6), TRIES, 1.0, "without sending complete message body", {"stream": True}),
    "no answer": Case(Fault(hangs_up=True), TRIES, 1.0, "disconnected without sending a response"),
    "invalid JSON": Case(Fault(body='{"choices": ['), 1, 0.5, "decode"),
    "wrong content type": Case(Fault(body="<p>Welcome</p>", content_type="text/html"), 1, 0.5, "chat completions"),
    "empty choices": Case(
        Fault(body='{"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": []}'),
        1,
        0.5,
        "the list of choices is empty",
    ),
    "10 MB reply": Case(Fault(body="x" * 10_000_000), 1, 1.0, "more than 4,194,304 bytes. Set max_tokens"),
    "wrong key": Case(Fault(), 1, 0.5, "status 401", {"api_key": "sk-wrong-9876543210"}),
}


def model_of(server: ModelServer, **options: Any) -> llm.OpenAICompatibleLLM:
    return llm.OpenAICompatibleLLM("m", base_url=server.url, **{"api_key": KEY, **POLICY, **options})


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    with ModelServer() as server:
        model_of(server, timeout_seconds=10, stream=True)("the first takes a second, for the imports")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_fault_costs_no_more_requests_and_time_than_the_policy_allows(case: Case) -> None:
    with ModelServer(faults=case.fault, key=KEY) as server:
        model, start = model_of(server, **PATIENT | case.options), time.perf_counter()
        with pytest.raises(llm.LLMError) as caught:
            model("a prompt")
        assert server.num_requests == case.requests
        assert time.perf_counter() - start < case.seconds + SLACK_SECONDS
        assert case.expected_text in str(caught.value)
        assert KEY not in str(caught.value)
        assert "sk-wrong" not in str(caught.value)


@pytest.mark.parametrize(
    "fault", [Fault(500), Fault(429), Fault(hangs_up=True), Fault(sent_fraction=0.5), Fault(delay_seconds=30)]
)
def test_a_fault_that_passes_costs_one_request_more_and_no_reply(fault: Fault) -> None:
    with ModelServer(faults={0: fault}, key=KEY) as server:
        assert model_of(server)("a prompt").text == "An answer."
        assert server.num_requests == 2


def test_a_rest_that_a_server_asks_one_for_is_kept_by_all() -> None:
    with ModelServer(faults={1: Fault(429, headers={"Retry-After-Ms": "400"})}, key=KEY) as server:
        model = model_of(server, timeout_seconds=5)
        model("makes the client, which may take longer than the others wait")
        started = time.perf_counter()
        arrivals = list[float]()

        def ask(number: int) -> None:
            time.sleep(0.1 if number else 0.0)  # the first is refused, the others come while the server rests
            model(f"thread {number}")
            arrivals.append(time.perf_counter() - started)

        fakes.run_concurrently(ask, 8)
        assert server.num_requests == 10
        assert min(arrivals) >= 0.4


def test_a_server_that_is_down_is_asked_by_one_at_a_time_and_then_given_up() -> None:
    with ModelServer(faults=Fault(500), key=KEY) as server:
        model, start = model_of(server), time.perf_counter()
        failures = list[llm.LLMError]()

        def ask(number: int) -> None:
            for _ in range(40):
                try:
                    model(f"thread {number}")
                except llm.LLMError as error:
                    failures.append(error)
                    if error.is_down:
                        return

        fakes.run_concurrently(ask, 16)
        assert sum(error.is_down for error in failures) == 16
        assert time.perf_counter() - start < 30
        # 16 that fly when it goes down, and then probes whose pauses double from 40 ms until 0.6 s are over.
        assert server.num_requests <= 16 + 2 * 6
        assert "It has been down for" in str(failures[-1])


def test_a_server_that_comes_back_is_asked_by_all_again() -> None:
    faults = dict.fromkeys(range(7), Fault(503))
    with ModelServer(faults=faults, key=KEY) as server:
        model = model_of(server, retries=8, outage_seconds=60)
        texts = fakes.run_concurrently(lambda number: model(f"thread {number}").text, 4)
        assert texts == ["An answer."] * 4
        assert server.num_requests == 7 + 4


def test_a_stream_is_put_together_once() -> None:
    with ModelServer(lambda prompt, number: "several words\nin a row", key=KEY) as server:
        reply = model_of(server, stream=True)("a prompt")
        assert server.requests[0].parse_data()["stream"] is True
        assert reply.text == "several words\nin a row"
        assert (reply.cost.tokens_in, reply.cost.tokens_out) == (2, 5)


def test_a_stream_that_ends_too_soon_is_no_reply() -> None:
    body = 'data: {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": '
    body += '[{"index": 0, "delta": {"content": "half"}, "finish_reason": null}]}\n\n'
    with ModelServer(faults=Fault(body=body, content_type="text/event-stream"), key=KEY) as server:
        with pytest.raises(llm.LLMError, match="the stream ended before the response did"):
            model_of(server, stream=True)("a prompt")
        assert server.num_requests == TRIES
