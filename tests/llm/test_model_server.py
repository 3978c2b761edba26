"""The server of the tests speaks HTTP as servers do, and does wrong only what it is told to."""

import http.client
import json
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path

import pytest

from atoll import candidate, llm
from atoll.testing.server import Fault, ModelServer


def post(connection: http.client.HTTPConnection, prompt: str, path: str = "/v1/chat/completions") -> tuple[int, str]:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": prompt}]})
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, response.read().decode()


def client_of(server: ModelServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urllib.parse.urlsplit(server.url).netloc, timeout=60)


def test_requests_are_counted_and_remembered_in_order() -> None:
    with ModelServer(lambda prompt, number: f"{number}: {prompt}") as server:
        client = client_of(server)
        texts = [json.loads(post(client, prompt)[1])["choices"][0]["message"]["content"] for prompt in ("a", "b")]
        client.close()
        assert texts == ["0: a", "1: b"]
        assert (server.num_requests, server.prompts, server.num_connections) == (2, ["a", "b"], 1)


def test_a_hundred_replies_over_one_connection_do_not_wait_for_receipts() -> None:
    with ModelServer() as server:
        client, start = client_of(server), time.perf_counter()
        for _ in range(100):
            post(client, "a")
        client.close()
        assert time.perf_counter() - start < 2  # 40 ms of Nagle each would be 4 s


def test_faults_hit_the_requests_they_are_for() -> None:
    faults = {0: Fault(503), 1: Fault(body="no JSON"), 2: Fault(delay_seconds=0.05), 3: Fault(hangs_up=True)}
    with ModelServer(faults=faults) as server:
        client = client_of(server)
        assert post(client, "a") == (
            503,
            '{"error": {"message": "Service Unavailable", "type": "error", "code": null}}',
        )
        assert post(client, "a") == (200, "no JSON")
        start = time.perf_counter()
        assert post(client, "a")[0] == 200
        assert time.perf_counter() - start >= 0.05
        with pytest.raises(ConnectionError):
            post(client, "a")
        client.close()
        assert post(client, "a")[0] == 200
        client.close()


def test_there_is_nothing_at_other_addresses() -> None:
    with ModelServer() as server:
        client = client_of(server)
        assert post(client, "a", "/v1/completions")[0] == 404
        client.close()
        assert server.num_requests == 0


def test_what_is_no_http_is_hung_up_on() -> None:
    with ModelServer() as server:
        client = client_of(server)
        client.connect()
        client.sock.sendall(b"hello\r\n\r\n")
        assert client.sock.recv(100) == b""
        client.close()


def test_closing_hangs_up_on_who_waits_and_may_be_repeated() -> None:
    server = ModelServer(faults=Fault(delay_seconds=60))
    client = client_of(server)
    client.request("POST", "/v1/chat/completions", '{"messages": [{"role": "user", "content": "a"}]}')
    while not server.num_requests:
        time.sleep(0.001)
    start = time.perf_counter()
    server.close()
    server.close()
    assert time.perf_counter() - start < 30
    assert server.num_open == 0
    client.close()


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-m", "atoll.testing.server", *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_alone_it_prints_its_address_logs_its_requests_and_ends_with_its_parent(tmp_path: Path) -> None:
    reply, log = tmp_path / "reply.txt", tmp_path / "log"
    reply.write_text("From the file.\n", encoding="utf-8")
    with start("--port", "0", "--reply-file", str(reply), "--log", str(log)) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        model = llm.OpenAICompatibleLLM("m", base_url=server.stdout.readline())
        assert [model(prompt).text for prompt in ("a", "b")] == ["From the file.\n"] * 2
        assert log.read_text().splitlines() == [f"0 {candidate.content_hash('a')}", f"1 {candidate.content_hash('b')}"]
        server.stdin.close()
        assert server.wait(10) == 0


def test_alone_it_ends_after_its_time() -> None:
    with start("--seconds", "0.05") as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("http://127.0.0.1:")
        assert server.wait(10) == 0
