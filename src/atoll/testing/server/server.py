"""A server of models that says what a test tells it to say, to OpenAI's, Anthropic's and Google's clients."""

import contextlib
import json
import math
import socket
import socketserver
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from io import BufferedIOBase
from threading import Condition, Event, Lock, Thread
from types import TracebackType
from typing import Any, Self

from atoll.testing.server import shapes

type Answer = Callable[[str, int], str]

_PIECES = 32
_PATIENCE_SECONDS = 5.0  # for the last replies when the server closes


@dataclass(frozen=True, slots=True)
class Fault:
    """How one request is treated badly.

    Attributes:
        status: Of the response; one that is no 200 gets an error body as OpenAI sends it.
        delay_seconds: How long the response is held back.
        body: Sent instead of what would be sent: no JSON, or JSON without choices.
        headers: Sent besides the usual ones.
        hangs_up: The connection is closed and there is no response.
        content_type: Of the response.
        drip_seconds: The response comes in 32 pieces with a pause before each.
        cut: The connection is closed after this share of the response.
    """

    status: int = 200
    delay_seconds: float = 0.0
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    hangs_up: bool = False
    content_type: str = "application/json"
    drip_seconds: float = 0.0
    cut: float = 1.0


@dataclass(frozen=True, slots=True)
class Request:
    """What a client sent; the names of its headers are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    def data(self) -> Mapping[str, Any]:
        found = json.loads(self.body or b"{}")
        return found if isinstance(found, dict) else {}

    def prompt(self) -> str:
        """Returns the text of the last message."""
        return shapes.prompt_of(self.data())


class ModelServer:
    """Answers chat completions on loopback, over kept connections, in threads.

    with ModelServer(lambda prompt, number: prompt.upper()) as server:
        model = llm.OpenAICompatible("any", base_url=server.url)
    """

    def __init__(
        self,
        answer: Answer = lambda prompt, number: "An answer.",
        *,
        faults: Mapping[int, Fault] | Fault = Fault(),  # noqa: B008 - frozen
        port: int = 0,
        key: str | None = None,
    ) -> None:
        """Listens at once.

        Args:
            answer: Makes the text of a reply of the prompt and the number of the request, from 0 on. It is called
                from several threads.
            faults: Treats these requests badly, by number; or all of them.
            port: 0 takes one that is free.
            key: Who sends another one is refused; None lets everybody in.
        """
        self._answer, self._faults, self._key = answer, faults, key
        self._requests: list[Request] = []
        self._lock, self._is_closing = Lock(), Event()
        self._listener = _Listener(port, self._respond)
        self._thread = Thread(target=self._listener.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The base address that clients are given."""
        return f"http://127.0.0.1:{self._listener.server_address[1]}/v1"

    @property
    def requests(self) -> list[Request]:
        """The requests for completions in the order of their arrival, also those that were treated badly."""
        with self._lock:
            return list(self._requests)

    @property
    def num_requests(self) -> int:
        with self._lock:
            return len(self._requests)

    @property
    def num_connections(self) -> int:
        """How many connections were ever opened."""
        return self._listener.num_opened

    @property
    def num_open(self) -> int:
        """How many connections are open now."""
        return len(self._listener.open)

    @property
    def prompts(self) -> list[str]:
        return [request.prompt() for request in self.requests]

    def close(self) -> None:
        """Hangs up on everybody; a second call does nothing."""
        if not self._is_closing.is_set():
            self._is_closing.set()
            self._listener.shutdown()
            self._thread.join()
            self._listener.hang_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _respond(self, request: Request) -> Iterator[bytes]:
        """Yields the response in pieces; to yield less than all of it hangs up."""
        if not shapes.is_known(request.path):
            yield _response(404, _error(f"There is nothing at {request.path}."))
            return
        with self._lock:
            number = len(self._requests)
            self._requests.append(request)
        fault = self._faults.get(number, Fault()) if isinstance(self._faults, Mapping) else self._faults
        response = self._made(request, number, fault)
        self._is_closing.wait(fault.delay_seconds)
        if fault.hangs_up:
            return
        response = response[: math.ceil(len(response) * fault.cut)]
        size = math.ceil(len(response) / (_PIECES if fault.drip_seconds else 1))
        for start in range(0, len(response), size):
            self._is_closing.wait(fault.drip_seconds)
            yield response[start : start + size]
        if fault.cut < 1.0:
            raise ConnectionAbortedError("as planned")

    def _made(self, request: Request, number: int, fault: Fault) -> bytes:
        is_known = self._key is None or request.headers.get("authorization") == f"Bearer {self._key}"
        status = fault.status if is_known else 401
        if fault.body is not None and is_known:
            return _response(status, fault.body, fault.headers, fault.content_type)
        if status != 200:
            return _response(status, _error(_reason(status)), fault.headers, fault.content_type)
        data = request.data()
        found = shapes.answer(request.path, data, number, self._answer(request.prompt(), number)) or {}
        if data.get("stream"):
            return _response(200, shapes.events(found), fault.headers, "text/event-stream")
        return _response(200, json.dumps(found), fault.headers, fault.content_type)


class _Listener(socketserver.ThreadingTCPServer):
    """Serves one thread per connection and knows which are open."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256  # 64 workers connect at once; the usual 5 would cost some of them a second

    def __init__(self, port: int, respond: Callable[[Request], Iterator[bytes]]) -> None:
        self.respond, self.num_opened = respond, 0
        self.open = set[socket.socket]()
        self.change = Condition()
        super().__init__(("127.0.0.1", port), _Connection)

    def hang_up(self) -> None:
        self.server_close()
        with self.change:
            for connection in self.open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self.change.wait_for(lambda: not self.open, _PATIENCE_SECONDS)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self.change:
            self.open.add(request)
            self.num_opened += 1
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self.change:
            self.open.discard(request)
            self.change.notify_all()


class _Connection(socketserver.StreamRequestHandler):
    """Answers the requests of one client, one after the other."""

    disable_nagle_algorithm = True
    server: _Listener

    def handle(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the client has gone, or speaks no HTTP
            while (request := _read(self.rfile)) is not None:
                is_answered = False
                for piece in self.server.respond(request):
                    self.connection.sendall(piece)  # mostly all of it: two would wait 40 ms for each other's receipt
                    is_answered = True
                if not is_answered:
                    return


def _read(file: BufferedIOBase) -> Request | None:
    """Reads one request; None when the client has said all."""
    words = file.readline().split()
    if len(words) != 3:
        return None
    headers: dict[str, str] = {}
    while line := file.readline().strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    size = int(headers.get("content-length", 0))
    body = file.read(size)
    return Request(words[1].decode("latin-1"), headers, body) if len(body) == size else None


def _response(
    status: int, body: str, headers: Mapping[str, str] | None = None, content_type: str = "application/json"
) -> bytes:
    content = body.encode()
    lines = [f"HTTP/1.1 {status} {_reason(status)}", f"Content-Type: {content_type}"]
    lines += [f"Content-Length: {len(content)}", *(f"{name}: {value}" for name, value in (headers or {}).items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


def _reason(status: int) -> str:
    return HTTPStatus(status).phrase if status in HTTPStatus else "Unknown"


def _error(message: str) -> str:
    return json.dumps({"error": {"message": message, "type": "error", "code": None}})
