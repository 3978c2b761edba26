"""HTTP clients: framing, connection reuse, closed connections, timeouts, size limits; synchronous and asynchronous."""

import asyncio
import contextlib
import gc
import gzip
import json
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from atoll import llm
from atoll.llm import http_client
from atoll.llm.endpoint import Endpoint

type Post = Callable[..., Awaitable[httpx2.Response]]
type Speak = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]

HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
TIMEOUT_SECONDS = 2.0
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: 1\r\n\r\n"


class Wire:
    """A server on loopback whose every byte the test decides."""

    def __init__(self, speak: Speak) -> None:
        self._speak, self.num_connections = speak, 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.num_connections += 1
        try:
            await self._speak(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            writer.close()

    async def aclose(self) -> None:
        """Aborts every connection: one with bytes that its client never read, and one that was just accepted."""
        await asyncio.sleep(0.01)  # connections that were accepted last get their transports
        for transport in list(getattr(asyncio.get_running_loop(), "_transports", {}).values()):
            transport.abort()
        for _ in range(5):  # transports release their sockets in the next cycles of the loop
            await asyncio.sleep(0)


class Cycles:
    """Runs some cycles of the loop at its end: asyncio leaks a connection that it accepts for a closed server."""

    async def aclose(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


async def request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
    return head + await reader.readexactly(size)


def saying(*answers: bytes) -> Speak:
    """Answers the requests of a connection with these bytes, and hangs up when they are all said."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await request(reader)
            writer.write(answer)
            await writer.drain()

    return speak


type Session = Callable[[Speak, Callable[[Post], Awaitable[None]]], Wire]


@pytest.fixture(params=["sync", "async"])
def session(request) -> Session:
    """Runs a server and a client on one event loop; the synchronous client in threads."""

    def run(speak: Speak, use: Callable[[Post], Awaitable[None]]) -> Wire:
        wire = Wire(speak)

        async def main() -> None:
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(64))
            server = await asyncio.start_server(wire.serve, "127.0.0.1")
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/x?y=z"
            endpoint = Endpoint("openai", "some-model", url, "some-key")
            async with contextlib.aclosing(wire), server, contextlib.aclosing(Cycles()):
                if request.param == "async":
                    async with http_client.make_async_client(endpoint, TIMEOUT_SECONDS) as client:
                        await use(lambda **options: client.post(url, **{"content": b"prompt", **options}))
                else:
                    with http_client.make_client(endpoint, TIMEOUT_SECONDS) as sync_client:
                        await use(
                            lambda **options: asyncio.to_thread(
                                sync_client.post, url, **{"content": b"prompt", **options}
                            )
                        )

        asyncio.run(main())
        return wire

    return run


@pytest.mark.parametrize(
    "answer",
    [
        HELLO,
        CHUNKED,
        b"HTTP/1.1 200 OK\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + HELLO,
        HELLO.replace(b"OK", b"").replace(b"Content-Length:", b"content-length:\t"),
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"hello"),
    ],
    ids=["length", "chunked", "to the end", "http/1.0", "announced", "sparse", "gzip"],
)
@pytest.mark.parametrize("piece", [1, 7, 100_000])
def test_an_answer_is_read_however_it_is_framed_and_cut(session, answer, piece):
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        for start in range(0, len(answer), piece):
            writer.write(answer[start : start + piece])
            await asyncio.sleep(0)

    async def use(post: Post) -> None:
        response = await post()
        assert (response.status_code, response.text) == (200, "hello")

    session(speak, use)


def test_the_request_is_sent_whole(session):
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await request(reader))
        writer.write(HELLO)

    async def use(post: Post) -> None:
        await post(headers={"Authorization": "Bearer key"})

    received: list[bytes] = []
    session(speak, use)
    head, _, body = received[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/x?y=z HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nAuthorization: Bearer key" in head
    assert body == b"prompt"


def test_a_large_answer_arrives_whole(session):
    body = b"0123456789" * 300_000

    async def use(post: Post) -> None:
        assert (await post(content=body)).content == body

    session(saying(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body), use)


@pytest.mark.parametrize("answer", [HELLO, CHUNKED, b"HTTP/1.1 204 No Content\r\n\r\n"])
def test_a_connection_is_used_again(session, answer):
    async def use(post: Post) -> None:
        for _ in range(5):
            await post()

    assert session(saying(*[answer] * 5), use).num_connections == 1


def test_64_requests_at_once_get_a_connection_each_and_the_next_64_the_same(session):
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            body = (await request(reader)).partition(b"\r\n\r\n")[2]
            await asyncio.sleep(0.02)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    async def use(post: Post) -> None:
        for _ in range(2):
            texts = [str(number) for number in range(64)]
            responses = await asyncio.gather(*(post(content=text.encode()) for text in texts))
            assert [response.text for response in responses] == texts

    assert session(speak, use).num_connections == 64


@pytest.mark.parametrize(
    "answer", [HELLO.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"), HELLO.replace(b"1.1", b"1.0")]
)
def test_connection_is_not_reused_when_the_server_closes_it(session, answer):
    async def use(post: Post) -> None:
        for _ in range(3):
            assert (await post()).text == "hello"

    assert session(saying(answer, answer, answer), use).num_connections == 3


def test_a_connection_that_speaks_unasked_is_dropped(session):
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(HELLO)
        await asyncio.sleep(0.02)
        writer.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        await reader.read()

    async def use(post: Post) -> None:
        for _ in range(2):
            assert (await post()).text == "hello"
            await asyncio.sleep(0.05)

    assert session(speak, use).num_connections == 2


def test_a_connection_that_was_closed_while_idle_is_replaced(session):
    async def use(post: Post) -> None:
        for _ in range(3):
            assert (await post()).text == "hello"
            await asyncio.sleep(0.02)

    assert session(saying(HELLO), use).num_connections == 3


def ask(speak: Speak, num_calls: int, **options: Any) -> Wire:
    """Asks an LLM behind this server, one call after the other."""
    wire = Wire(speak)

    def call(url: str) -> None:
        model = llm.OpenAICompatibleLLM("some-model", base_url=url, backoff_seconds=0.001, **options)
        for _ in range(num_calls):
            assert model("prompt").text == "hello"

    async def main() -> None:
        start = asyncio.start_server(wire.serve, "127.0.0.1")
        async with contextlib.aclosing(wire), await start as server, contextlib.aclosing(Cycles()):
            try:
                await asyncio.to_thread(call, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
            finally:
                gc.collect()  # closes the connections: the errors of httpx are in reference cycles

    asyncio.run(main())
    return wire


COMPLETION = json.dumps({"choices": [{"message": {"content": "hello"}}]}).encode()
HELLO_COMPLETION = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(COMPLETION) + COMPLETION


@pytest.mark.parametrize(
    "extra", [b"and more than announced", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"]
)
def test_llm_call_survives_stray_bytes_of_the_call_before(extra):
    ask(saying(*[HELLO_COMPLETION + extra] * 3), 3)


def test_llm_call_on_a_connection_that_is_just_being_closed_is_sent_again():
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(HELLO_COMPLETION)
        await request(reader)  # taken, and hung up on

    assert ask(speak, 2).num_connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200",
        HELLO[:-1],
        CHUNKED[:-6],
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"x" * 100_000,
        HELLO.replace(b": 5", b": five"),
        HELLO.replace(b": 5", b": -5"),
        CHUNKED.replace(b"3;x=y", b"three"),
    ],
)
def test_an_answer_that_is_none_is_an_error_of_httpx(session, answer):
    async def use(post: Post) -> None:
        with pytest.raises(httpx2.RemoteProtocolError):
            await post()

    assert session(saying(answer), use).num_connections == 1


def test_a_server_that_does_not_answer_is_left_after_the_timeout(session):
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def use(post: Post) -> None:
        for _ in range(2):
            with pytest.raises(httpx2.ReadTimeout):
                await post(timeout=0.05)

    assert session(speak, use).num_connections == 2


def test_client_limits_the_size_of_a_response(monkeypatch):
    monkeypatch.setattr(http_client, "MAX_RESPONSE_BYTES", 4)
    with pytest.raises(llm.LLMError, match=r"more than 4 bytes\. Set max_tokens\."):
        ask(saying(HELLO_COMPLETION), 1)
    with pytest.raises(llm.LLMError, match=r"more than 4 bytes\. Set max_tokens\."):
        ask(saying(HELLO_COMPLETION), 1, stream=True)


def test_header_with_a_line_break_is_not_sent(session):
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(1))

    async def use(post: Post) -> None:
        with pytest.raises(httpx2.LocalProtocolError):
            await post(headers=[(b"X", b"1\r\nAuthorization: else")])

    received: list[bytes] = []
    session(speak, use)
    assert b"".join(received) == b""
