"""Live stream with reconnecting, slow and stalled clients."""

import asyncio
import contextlib
import json
import socket
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from atoll import store
from atoll.dashboard import event_stream
from atoll.journal import Record
from tests import fixtures
from tests.dashboard.browser import stage


@pytest.fixture
def run_store(tmp_path):
    with store.Store(tmp_path / "atoll.db") as run_store:
        run_store.create_run("run")
        yield run_store


@pytest.fixture
def address(run_store):
    with stage.serve(run_store) as server:
        yield server.address


def write(run_store, first: int, last: int, text: str = "") -> None:
    records = run_store.journal("run")
    for start in range(first, last + 1, 100):
        steps = range(start, min(start + 100, last + 1))
        records.write(*(Record("observed", n, 0, {"id": f"{n}.0", "evaluation": {"feedback": text}}) for n in steps))


class Client:
    """Reads the stream from a socket, like a browser."""

    def __init__(self, address: str, query: str = "", last_id: int | None = None) -> None:
        host = urlsplit(address).netloc
        name, _, port = host.partition(":")
        self.socket = socket.create_connection((name, int(port)), 60)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        header = f"Last-Event-ID: {last_id}\r\n" if last_id is not None else ""
        self.socket.sendall(f"GET /sse/timeline?run=run{query} HTTP/1.1\r\nHost: {host}\r\n{header}\r\n".encode())
        self.seqs: list[int] = []
        self.events: list[dict[str, Any]] = []
        self._rest = b""

    def read(self) -> bool:
        """Reads available data; returns whether the connection is open."""
        piece = self.socket.recv(65536)
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"id: "):
                self.seqs.append(int(line[4:]))
            if line.startswith(b"data: "):
                self.events.append(json.loads(line[6:]))
        return bool(piece)

    def until(self, last: int) -> None:
        while not self.seqs or self.seqs[-1] < last:
            assert self.read(), f"the stream ended at {self.seqs[-1:]}"


@pytest.fixture
def connect():
    """Creates clients and closes their sockets."""
    clients: list[Client] = []

    def connect(*args: Any, **resume_by: Any) -> Client:
        clients.append(Client(*args, **resume_by))
        return clients[-1]

    yield connect
    for client in clients:
        client.socket.close()


def test_stream_sends_records_with_sequence_number(run_store, address, connect):
    client = connect(address)
    while not client.events:
        client.read()
    assert client.events[0] == {"run": "run", "end": 0}
    write(run_store, 1, 5)
    client.until(5)
    assert client.seqs == [1, 2, 3, 4, 5]
    assert client.events[-1]["kind"] == "observed"


@pytest.mark.parametrize("resume_by", ["header", "query"])
def test_reconnecting_client_misses_nothing(resume_by, run_store, address, connect):
    write(run_store, 1, 40)
    first = connect(address, "&after=0")
    first.until(20)
    last = first.seqs[-1]
    first.socket.close()
    write(run_store, 41, 60)
    again = connect(address, last_id=last) if resume_by == "header" else connect(address, f"&after={last}")
    again.until(60)
    assert first.seqs + again.seqs == list(range(1, 61))


def test_client_far_behind_reads_store(run_store, address, monkeypatch, connect):
    monkeypatch.setattr(event_stream, "BUFFERED_RECORDS", 50)
    newest = connect(address)
    while not newest.events:
        newest.read()
    write(run_store, 1, 3000)
    behind = connect(address, "&after=0")
    behind.until(3000)
    newest.until(3000)
    assert behind.seqs == newest.seqs == list(range(1, 3001))


def test_stalled_client_is_disconnected_without_delaying_others(run_store, monkeypatch, connect):
    monkeypatch.setattr(event_stream, "STALLED_SECONDS", 0.5)
    num_events, text = 4000, "x" * 220  # more than the socket buffers hold
    with stage.serve(run_store) as server:
        tails = server.app.state.tails
        stalled = connect(server.address, "&after=0")
        others = [connect(server.address, "&after=0") for _ in range(2)]
        threads = [threading.Thread(target=item.until, args=(4 * num_events,), daemon=True) for item in others]
        for thread in threads:
            thread.start()
        for part in range(4):
            write(run_store, 1 + part * num_events, (1 + part) * num_events, text)
        for thread in threads:
            thread.join(60)
        assert all(item.seqs == list(range(1, 4 * num_events + 1)) for item in others)
        fixtures.wait_until(lambda: tails.num_cut == 1, 60)
        while stalled.read():  # remaining data until the end
            pass
        assert 0 < len(stalled.seqs) < 4 * num_events
        again = connect(server.address, last_id=stalled.seqs[-1])
        again.until(4 * num_events)
        assert stalled.seqs + again.seqs == list(range(1, 4 * num_events + 1))


def test_stream_sends_pings(run_store, monkeypatch, connect):
    monkeypatch.setattr(event_stream, "PING_SECONDS", 0.1)
    with stage.serve(run_store) as server:
        client = connect(server.address)
        deadline, received = time.monotonic() + 60, b""
        while b": ping" not in received and time.monotonic() < deadline:
            received += client.socket.recv(4096)
        assert b": ping" in received


def test_tail_stops_without_clients(run_store, connect):
    with stage.serve(run_store) as server:
        client = connect(server.address)
        tails = server.app.state.tails
        fixtures.wait_until(lambda: any(item._task for item in tails._tails.values()), 60)
        [tail] = tails._tails.values()
        client.socket.close()
        fixtures.wait_until(lambda: tail._task is None, 60)
        assert tails.num_clients == 0


def test_client_that_leaves_early_is_removed(run_store):
    tails = event_stream.RunTails(run_store)

    async def watch() -> None:
        with tails.reserve(is_guest=True):
            async with tails.subscribe("run"):
                await asyncio.sleep(60)

    async def connect_and_leave() -> None:
        task = asyncio.create_task(watch())
        while not tails.num_clients:  # before its first read of the store has ended
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    with ThreadPoolExecutor(1) as other:  # own thread, since browser tests leave an event loop in this one
        for _ in range(3):
            other.submit(lambda: asyncio.run(connect_and_leave())).result()
    assert tails.num_clients == 0
    assert not tails._tails


def test_stream_survives_store_failure(run_store, address, connect, tmp_path):
    client = connect(address)
    while not client.events:
        client.read()
    write(run_store, 1, 1)
    client.until(1)
    with contextlib.closing(sqlite3.connect(tmp_path / "atoll.db", timeout=60)) as other:
        other.execute("ALTER TABLE records RENAME TO away")
        time.sleep(5 * event_stream.WAIT_SECONDS)  # reads fail meanwhile
        other.execute("ALTER TABLE away RENAME TO records")
    write(run_store, 2, 3)
    client.until(3)
    assert client.seqs == [1, 2, 3]
