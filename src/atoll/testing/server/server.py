"""LLM server with scripted responses in the formats of OpenAI, Anthropic and Google."""

import contextlib
import json
import math
import re
import socket
import socketserver
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from io import BufferedIOBase
from threading import Condition, Event, Lock, Thread
from types import TracebackType
from typing import Any, Self

from atoll import llm


def get_messages(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the messages of a request as (role, text), in the names of OpenAI's roles."""
    system = data.get("system") or data.get("systemInstruction", {}).get("parts")
    messages = [("system", _join_parts(system))] if system else []
    for message in data.get("contents") or data["messages"]:
        role = {"model": "assistant"}.get(message.get("role", "user"), message.get("role", "user"))
        messages.append((role, _join_parts(message.get("parts") or message["content"])))
    return messages


def _join_parts(content: str | Sequence[Mapping[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def get_prompt(data: Mapping[str, Any]) -> str:
    """Returns the texts of a request, joined as in `llm.ChatPrompt`."""
    return llm.ChatPrompt(*get_messages(data))  # type: ignore[arg-type]  # these are its roles


def make_answer(path: str, data: Mapping[str, Any], index: int, text: str) -> Mapping[str, Any] | None:
    """Returns the response in the format of the path; None for an unknown path."""
    tokens = (len(get_prompt(data).split()), len(text.split()))
    model = data.get("model", "unnamed")
    if path.endswith("/chat/completions"):
        return _make_completion(index, model, text, tokens)
    if path.endswith("/messages"):
        usage = {"input_tokens": tokens[0], "output_tokens": tokens[1]}
        message = {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": None}
        return {"id": f"msg_{index}", "type": "message", "role": "assistant", "model": model, "usage": usage, **message}
    if path.partition("?")[0].endswith(":generateContent"):
        counts = dict(zip(("promptTokenCount", "candidatesTokenCount"), tokens, strict=True))
        candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP", "index": 0}
        return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": path.split("/")[-1].split(":")[0]}
    return None


def is_known(path: str) -> bool:
    """Returns whether the path is served."""
    return path.partition("?")[0].endswith(("/chat/completions", "/messages", ":generateContent"))


def format_events(completion: Mapping[str, Any]) -> str:
    """Returns a completion as server-sent events, one per word."""
    choice = completion["choices"][0]
    words = re.findall(r"\S*\s*", choice["message"]["content"])
    choices = [{"index": 0, "delta": {"role": "assistant", "content": word}, "finish_reason": None} for word in words]
    choices.append({"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]})
    common = {**completion, "object": "chat.completion.chunk"}
    chunks = [{**common, "choices": [choice_delta], "usage": None} for choice_delta in choices]
    chunks.append({**common, "choices": [], "usage": completion["usage"]})
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


def _make_completion(index: int, model: str, text: str, tokens: Sequence[int]) -> Mapping[str, Any]:
    return {
        "id": f"completion-{index}",
        "object": "chat.completion",
        "provider": "Loopback",  # gateways name the provider
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)},
    }


type AnswerFunction = Callable[[str, int], str]

_NUM_CHUNKS = 32
_CLOSE_TIMEOUT_SECONDS = 5.0  # for the last responses when the server closes


@dataclass(frozen=True, slots=True)
class Fault:
    """Fault of one response.

    Attributes:
        status: HTTP status; any other than 200 gets an error body in the format of OpenAI.
        delay_seconds: Delay of the response.
        body: Replaces the body, for example by invalid JSON.
        headers: Additional headers.
        hangs_up: Close the connection without a response.
        content_type: Content type of the response.
        drip_seconds: Send the response in 32 pieces with a pause before each.
        sent_fraction: Close the connection after this fraction of the response.
    """

    status: int = 200
    delay_seconds: float = 0.0
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    hangs_up: bool = False
    content_type: str = "application/json"
    drip_seconds: float = 0.0
    sent_fraction: float = 1.0


@dataclass(frozen=True, slots=True)
class Request:
    """Request of a client; header names are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    def parse_data(self) -> Mapping[str, Any]:
        parsed = json.loads(self.body or b"{}")
        return parsed if isinstance(parsed, dict) else {}

    def get_messages(self) -> list[tuple[str, str]]:
        """Returns (role, text) of the messages."""
        return get_messages(self.parse_data())

    def get_prompt(self) -> str:
        """Returns the texts of the messages, joined."""
        return get_prompt(self.parse_data())


class ModelServer:
    """Serves chat completions on this machine, with persistent connections and threads.

    with ModelServer(lambda prompt, number: prompt.upper()) as server:
        model = llm.OpenAICompatibleLLM("any", base_url=server.url)
    """

    def __init__(
        self,
        answer: AnswerFunction = lambda prompt, index: "An answer.",
        *,
        faults: Mapping[int, Fault] | Fault = Fault(),  # noqa: B008 - frozen
        port: int = 0,
        key: str | None = None,
    ) -> None:
        """Starts listening.

        Args:
            answer: Returns the response text, given the prompt and the request number from 0. Called from several
                threads.
            faults: Faults by request number, or one fault for all requests.
            port: 0 picks a free port.
            key: Required API key; None accepts all requests.
        """
        self._answer, self._faults, self._key = answer, faults, key
        self._requests: list[Request] = []
        self._lock, self._is_closing = Lock(), Event()
        self._listener = _Listener(port, self._respond)
        self._thread = Thread(target=self._listener.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Base URL for clients."""
        return f"http://127.0.0.1:{self._listener.server_address[1]}/v1"

    @property
    def requests(self) -> list[Request]:
        """Completion requests in order of arrival, including those with faults."""
        with self._lock:
            return list(self._requests)

    @property
    def num_requests(self) -> int:
        with self._lock:
            return len(self._requests)

    @property
    def num_connections(self) -> int:
        """Number of connections opened so far."""
        return self._listener.num_opened

    @property
    def num_open(self) -> int:
        """Number of open connections."""
        return len(self._listener.open)

    @property
    def prompts(self) -> list[str]:
        return [request.get_prompt() for request in self.requests]

    def close(self) -> None:
        """Closes all connections; a second call does nothing."""
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
        """Yields the response in pieces. An incomplete response closes the connection."""
        if not is_known(request.path):
            yield _format_response(404, _format_error(f"Path {request.path} not found."))
            return
        with self._lock:
            index = len(self._requests)
            self._requests.append(request)
        fault = self._faults.get(index, Fault()) if isinstance(self._faults, Mapping) else self._faults
        response = self._make_response(request, index, fault)
        self._is_closing.wait(fault.delay_seconds)
        if fault.hangs_up:
            return
        response = response[: math.ceil(len(response) * fault.sent_fraction)]
        size = math.ceil(len(response) / (_NUM_CHUNKS if fault.drip_seconds else 1))
        for start in range(0, len(response), size):
            self._is_closing.wait(fault.drip_seconds)
            yield response[start : start + size]
        if fault.sent_fraction < 1.0:
            raise ConnectionAbortedError("as planned")

    def _make_response(self, request: Request, index: int, fault: Fault) -> bytes:
        is_authorized = self._key is None or request.headers.get("authorization") == f"Bearer {self._key}"
        status = fault.status if is_authorized else 401
        if fault.body is not None and is_authorized:
            return _format_response(status, fault.body, fault.headers, fault.content_type)
        if status != 200:
            return _format_response(status, _format_error(_get_phrase(status)), fault.headers, fault.content_type)
        data = request.parse_data()
        answer = make_answer(request.path, data, index, self._answer(request.get_prompt(), index)) or {}
        if data.get("stream"):
            return _format_response(200, format_events(answer), fault.headers, "text/event-stream")
        return _format_response(200, json.dumps(answer), fault.headers, fault.content_type)


class _Listener(socketserver.ThreadingTCPServer):
    """Serves one thread per connection and tracks open connections."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256  # 64 workers connect at once; the default of 5 would delay some by a second

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
            self.change.wait_for(lambda: not self.open, _CLOSE_TIMEOUT_SECONDS)

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
    """Serves the requests of one connection in order."""

    disable_nagle_algorithm = True
    server: _Listener

    def handle(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the client disconnected, or its request is not HTTP
            while (request := _read_request(self.rfile)) is not None:
                is_sent = False
                for chunk in self.server.respond(request):
                    self.connection.sendall(chunk)  # usually one piece; two would wait 40 ms for an acknowledgment
                    is_sent = True
                if not is_sent:
                    return


def _read_request(file: BufferedIOBase) -> Request | None:
    """Reads one request; None at the end of the connection."""
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


def _format_response(
    status: int, body: str, headers: Mapping[str, str] | None = None, content_type: str = "application/json"
) -> bytes:
    content = body.encode(errors="surrogateescape")  # "\udc80" sends the byte 0x80
    lines = [f"HTTP/1.1 {status} {_get_phrase(status)}", f"Content-Type: {content_type}"]
    lines += [f"Content-Length: {len(content)}", *(f"{name}: {value}" for name, value in (headers or {}).items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


def _get_phrase(status: int) -> str:
    return HTTPStatus(status).phrase if status in HTTPStatus else "Unknown"


def _format_error(message: str) -> str:
    return json.dumps({"error": {"message": message, "type": "error", "code": None}})
