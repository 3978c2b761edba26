"""OpenAI-compatible endpoint with scripted answers for the data sets of bench/gepa_llm.py."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from bench.tasks import prompt_sets

RULE = "Answer with one word: LEDGER, WHEELS, KEYS or WORKSHOP."


class ScriptedEndpoint:
    """Knows the right answers, but gives them only if the prompt has the rule; reflects by writing the rule."""

    def __init__(self) -> None:
        self._answers = {item["input"]: item["answer"] for item in prompt_sets._make_tickets(240)}
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                message = {"role": "assistant", "content": endpoint.answer(body["messages"])}
                data = json.dumps({"choices": [{"message": message}], "usage": {"prompt_tokens": 1}}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def name(self) -> str:
        return f"openai:scripted@http://127.0.0.1:{self._server.server_address[1]}/v1"

    def answer(self, messages: list[dict[str, str]]) -> str:
        answer = self._answers.get(messages[-1]["content"])
        if answer is None:
            return f"IDEA: state the form.\n```\nName the team that handles the message. {RULE}\n```"
        return answer if RULE in messages[0]["content"] else f"The {answer.lower()} team."

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
