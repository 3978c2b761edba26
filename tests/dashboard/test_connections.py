"""Clients that try to starve the server: half-open connections, streams, wrong tokens, garbage."""

import contextlib
import logging
import resource
import socket
import time
import urllib.request
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from atoll import store
from atoll.dashboard import connections, event_stream, server
from tests.dashboard.browser import stage

TOKEN = "a token for tests"


@pytest.fixture
def address(tmp_path) -> Iterator[str]:
    with store.Store(tmp_path / "atoll.db") as run_store:
        run_store.create_run("run")
        with stage.serve(run_store) as running:
            yield running.address


def open_sockets(address: str, request: bytes, count: int) -> Iterator[socket.socket]:
    parts = urlsplit(address)
    for _ in range(count):
        with contextlib.suppress(OSError):
            client = socket.create_connection((parts.hostname, parts.port), 10)
            client.sendall(request)
            yield client


def time_page(address: str) -> float:
    """Returns the seconds until the owner has the page and a list of runs."""
    base = address.partition("/?")[0]
    start = time.monotonic()
    for path in ("/", "/api/runs"):
        with urllib.request.urlopen(base + path, timeout=30) as response:
            assert response.status == 200
            response.read()
    return time.monotonic() - start


def is_open(client: socket.socket) -> bool:
    client.settimeout(0.001)
    try:
        return client.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False


def attack(address: str, num_half_open: int, num_streams: int) -> tuple[float, int, int]:
    """Returns the seconds of the owner's page, and the half-open connections and streams that are open."""
    host = urlsplit(address).netloc
    stream = f"GET /sse/timeline?run=run HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(client) for client in open_sockets(address, stream, num_streams)]
        accepted = 0
        for client in streams:
            client.settimeout(20)
            with contextlib.suppress(OSError):
                accepted += b" 200" in client.recv(15)
        half = b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "
        half_open = [stack.enter_context(client) for client in open_sockets(address, half, num_half_open)]
        time_page(address)  # the server has accepted all of them
        seconds = time_page(address)
        return seconds, sum(map(is_open, half_open)), accepted


def test_half_open_connections_and_streams_are_limited(address, monkeypatch) -> None:
    monkeypatch.setattr(connections, "MAX_WAITING_PER_ADDRESS", 20)
    monkeypatch.setattr(event_stream, "MAX_GUESTS", 5)
    seconds, num_half_open, num_streams = attack(address, 60, 20)
    assert seconds < 10.0  # (two seconds on an idle machine; see the slow test)
    assert num_half_open <= 20
    assert num_streams == 5


def test_a_connection_without_a_request_ends(address, monkeypatch) -> None:
    monkeypatch.setattr(connections, "WAITING_SECONDS", 0.3)
    clients = list(open_sockets(address, b"GET / HTTP/1.1\r\n", 3))
    deadline = time.monotonic() + 20
    while any(map(is_open, clients)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for client in clients:
        client.close()
    time_page(address)


def test_a_connection_that_reads_nothing_ends(address, monkeypatch) -> None:
    monkeypatch.setattr(connections, "WAITING_SECONDS", 0.3)
    monkeypatch.setattr(connections, "MAX_PER_ADDRESS", 3)
    request = f"GET /openapi.json HTTP/1.1\r\nHost: {urlsplit(address).netloc}\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        for client in open_sockets(address, request * 100, 3):  # the responses do not fit into the kernel's buffers
            stack.enter_context(client)
        deadline = time.monotonic() + 20
        while True:
            with contextlib.suppress(OSError):  # all places are taken
                time_page(address)
                break
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.slow
def test_the_owner_is_served_under_attack(address, caplog) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 8000:
        pytest.skip("needs 8000 descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (8000, hard))
    try:
        with caplog.at_level(logging.WARNING):
            seconds, num_half_open, num_streams = attack(address, 2000, 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert seconds < 2.0
    assert num_half_open < 600  # (some are not accepted yet)
    assert num_streams == event_stream.MAX_GUESTS
    assert len(caplog.text) < 100_000


def test_garbage_does_not_flood_the_log(address, caplog) -> None:
    for client in open_sockets(address, b"\x00\xff garbage\r\n\r\n", 60):
        client.settimeout(5)
        with contextlib.suppress(OSError):
            client.recv(100)
        client.close()
    assert len(caplog.records) <= connections._MAX_LOG_LINES + 1
    time_page(address)


def test_wrong_tokens_make_an_address_wait(tmp_path) -> None:
    with store.Store(tmp_path / "atoll.db") as run_store:
        app = server.create_app(run_store, token=TOKEN, host="192.0.2.7")
        with TestClient(app, base_url="http://192.0.2.7:8765", follow_redirects=False) as client:
            assert client.get(f"/?token={TOKEN}").status_code == 303  # sets the cookie
            statuses = [
                client.get("/api/runs", headers={"authorization": f"Bearer wrong-token-{number}"}).status_code
                for number in range(8)
            ]
            assert statuses == [401] * 5 + [429] * 3
            refused = client.get("/api/runs", headers={"authorization": f"Bearer {TOKEN}"})
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) >= 1
            assert client.get("/?token=guess").status_code == 429
            assert client.get("/api/runs").status_code == 200  # the owner's browser has the cookie


def test_the_wait_grows_and_is_bounded(monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    backoff = connections.TokenBackoff()
    waits = []
    for _ in range(20):
        backoff.add_failure("a")
        waits.append(backoff.get_wait("a"))
    assert waits[:7] == [0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 4.0]
    assert max(waits) == connections.MAX_BACKOFF_SECONDS
    assert backoff.get_wait("b") == 0.0
    for number in range(20_000):
        backoff.add_failure(str(number))
    assert len(backoff._failures) <= 10_000
