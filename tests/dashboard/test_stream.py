"""The live stream: many clients of one run, of which some come back and one takes nothing."""

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
def kept(tmp_path):
    with store.Store(tmp_path / "atoll.db") as kept:
        kept.create_run("run")
        yield kept


@pytest.fixture
def address(kept):
    with stage.served(kept) as served:
        yield served.address


def write(kept, first: int, last: int, text: str = "") -> None:
    records = kept.journal("run")
    for start in range(first, last + 1, 100):
        steps = range(start, min(start + 100, last + 1))
        records.write(*(Record("observed", n, 0, {"id": f"{n}.0", "evaluation": {"feedback": text}}) for n in steps))


class Client:
    """Reads the stream as a browser does, by a socket of its own."""

    def __init__(self, address: str, query: str = "", last_id: int | None = None) -> None:
        host = urlsplit(address).netloc
        name, _, port = host.partition(":")
        self.socket = socket.create_connection((name, int(port)), 60)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        came = f"Last-Event-ID: {last_id}\r\n" if last_id is not None else ""
        self.socket.sendall(f"GET /sse/timeline?run=run{query} HTTP/1.1\r\nHost: {host}\r\n{came}\r\n".encode())
        self.seqs: list[int] = []
        self.told: list[dict[str, Any]] = []
        self._rest = b""

    def read(self) -> bool:
        """Takes what is there; returns whether the line is still open."""
        piece = self.socket.recv(65536)
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"id: "):
                self.seqs.append(int(line[4:]))
            if line.startswith(b"data: "):
                self.told.append(json.loads(line[6:]))
        return bool(piece)

    def until(self, last: int) -> None:
        while not self.seqs or self.seqs[-1] < last:
            assert self.read(), f"the line ended at {self.seqs[-1:]}"


@pytest.fixture
def connect():
    """Makes clients, and closes what they hold."""
    made: list[Client] = []

    def connect(*asked: Any, **how: Any) -> Client:
        made.append(Client(*asked, **how))
        return made[-1]

    yield connect
    for client in made:
        client.socket.close()


def test_what_is_written_is_sent_with_its_number(kept, address, connect):
    client = connect(address)
    while not client.told:
        client.read()
    assert client.told[0] == {"run": "run", "end": 0}
    write(kept, 1, 5)
    client.until(5)
    assert client.seqs == [1, 2, 3, 4, 5]
    assert client.told[-1]["kind"] == "observed"


@pytest.mark.parametrize("how", ["header", "query"])
def test_a_client_that_comes_back_misses_nothing(how, kept, address, connect):
    write(kept, 1, 40)
    first = connect(address, "&after=0")
    first.until(20)
    last = first.seqs[-1]
    first.socket.close()
    write(kept, 41, 60)
    again = connect(address, last_id=last) if how == "header" else connect(address, f"&after={last}")
    again.until(60)
    assert first.seqs + again.seqs == list(range(1, 61))


def test_one_that_is_far_behind_reads_the_store(kept, address, monkeypatch, connect):
    monkeypatch.setattr(event_stream, "BUFFERED_RECORDS", 50)
    newest = connect(address)
    while not newest.told:
        newest.read()
    write(kept, 1, 3000)
    behind = connect(address, "&after=0")
    behind.until(3000)
    newest.until(3000)
    assert behind.seqs == newest.seqs == list(range(1, 3001))


def test_a_client_that_takes_nothing_is_cut_and_holds_nobody_up(kept, monkeypatch, connect):
    monkeypatch.setattr(event_stream, "STALLED_SECONDS", 0.5)
    num_events, text = 4000, "x" * 220  # more than the buffers between here and there hold
    with stage.served(kept) as served:
        tails = served.app.state.tails
        stalled = connect(served.address, "&after=0")
        others = [connect(served.address, "&after=0") for _ in range(2)]
        threads = [threading.Thread(target=each.until, args=(4 * num_events,), daemon=True) for each in others]
        for thread in threads:
            thread.start()
        for part in range(4):
            write(kept, 1 + part * num_events, (1 + part) * num_events, text)
        for thread in threads:
            thread.join(60)
        assert all(each.seqs == list(range(1, 4 * num_events + 1)) for each in others)
        fixtures.wait_until(lambda: tails.num_cut == 1, 60)
        while stalled.read():  # what was on its way, then the end
            pass
        assert 0 < len(stalled.seqs) < 4 * num_events
        again = connect(served.address, last_id=stalled.seqs[-1])
        again.until(4 * num_events)
        assert stalled.seqs + again.seqs == list(range(1, 4 * num_events + 1))


def test_the_line_is_kept_alive_by_comments(kept, monkeypatch, connect):
    monkeypatch.setattr(event_stream, "PING_SECONDS", 0.1)
    with stage.served(kept) as served:
        client = connect(served.address)
        deadline, got = time.monotonic() + 60, b""
        while b": ping" not in got and time.monotonic() < deadline:
            got += client.socket.recv(4096)
        assert b": ping" in got


def test_nobody_polls_when_nobody_watches(kept, connect):
    with stage.served(kept) as served:
        client = connect(served.address)
        tails = served.app.state.tails
        fixtures.wait_until(lambda: any(each._task for each in tails._tails.values()), 60)
        [tail] = tails._tails.values()
        client.socket.close()
        fixtures.wait_until(lambda: tail._task is None, 60)
        assert tails.num_clients == 0


def test_who_goes_before_he_is_in_takes_no_place(kept):
    tails = event_stream.RunTails(kept)

    async def watch() -> None:
        async with tails.subscribe("run"):
            await asyncio.sleep(60)

    async def come_and_go() -> None:
        task = asyncio.create_task(watch())
        while not tails.num_clients:  # its first look into the store is not over then
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    with ThreadPoolExecutor(1) as other:  # in a thread of its own: browsers of other tests leave their loop in this one
        for _ in range(3):
            other.submit(lambda: asyncio.run(come_and_go())).result()
    assert tails.num_clients == 0
    assert not tails._tails


def test_a_store_that_fails_for_a_while_ends_no_stream(kept, address, connect, tmp_path):
    client = connect(address)
    while not client.told:
        client.read()
    write(kept, 1, 1)
    client.until(1)
    with contextlib.closing(sqlite3.connect(tmp_path / "atoll.db", timeout=60)) as other:
        other.execute("ALTER TABLE records RENAME TO away")
        time.sleep(5 * event_stream.POLL_SECONDS)  # on a machine that looks later there is nothing to survive
        other.execute("ALTER TABLE away RENAME TO records")
    write(kept, 2, 3)
    client.until(3)
    assert client.seqs == [1, 2, 3]
