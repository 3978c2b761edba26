"""Local endpoint of the race that passes LLM calls on to the real one and counts them per run."""

import http.client
import json
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

TIMEOUT_SECONDS = 300.0


class Usage(NamedTuple):
    """LLM usage of one run.

    Attributes:
        calls: Responses.
        errors: Calls that got an error instead.
        tokens_in: Tokens of the prompts, as the endpoint reports them.
        tokens_out: Tokens of the responses.
    """

    calls: int = 0
    errors: int = 0
    tokens_in: int = 0
    tokens_out: int = 0


class CountingEndpoint:
    """Serves `http://127.0.0.1:PORT/RUN` for any run name and forwards its calls to one URL."""

    def __init__(self, target: str) -> None:
        self._target = target.rstrip("/")
        self._usage: dict[str, Usage] = {}
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.endpoint = self

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def get_url(self, run: str) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/{run}"

    def get_usage(self, run: str) -> Usage:
        with self._lock:
            return self._usage.get(run, Usage())

    def forward(self, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        """Forwards a request. Returns the status and the body of the response."""
        run, _, rest = path.lstrip("/").partition("/")
        request = urllib.request.Request(f"{self._target}/{rest}", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
                status, content = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, content = error.code, error.read()
        except (OSError, http.client.HTTPException) as error:
            status, content = 502, json.dumps({"error": {"message": f"{self._target}: {error}"}}).encode()
        if body is not None:
            self._count(run, status, content)
        return status, content

    def _count(self, run: str, status: int, content: bytes) -> None:
        tokens = _read_tokens(content) if status == 200 else (0, 0)
        with self._lock:
            old = self._usage.get(run, Usage())
            is_response = status == 200
            self._usage[run] = Usage(
                old.calls + is_response,
                old.errors + (not is_response),
                old.tokens_in + tokens[0],
                old.tokens_out + tokens[1],
            )


def _read_tokens(content: bytes) -> tuple[int, int]:
    try:
        usage: Any = json.loads(content).get("usage") or {}
        return int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
    except (ValueError, AttributeError, TypeError):
        return 0, 0


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    endpoint: CountingEndpoint


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing."""

    def _answer(self, body: bytes | None) -> None:
        headers = {name: value for name in ("Authorization", "Content-Type") if (value := self.headers.get(name))}
        status, content = self.server.endpoint.forward(self.path, body, headers)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
