"""A real model on this machine, with no key: llama.cpp in a process of its own, on loopback, for us alone.

`python -m atoll.llm.local` serves until its standard input closes, so it goes when whoever started it goes.
"""

import argparse
import atexit
import logging
import os
import secrets
import select
import subprocess
import sys
import time
from importlib import util
from pathlib import Path
from threading import Lock
from typing import Any

from atoll import errors
from atoll.llm import model_download
from atoll.llm.base import Response
from atoll.llm.hosted import OpenAICompatibleLLM

DEFAULT_TIMEOUT_SECONDS = 300.0  # for a reply: some tokens a second on one thread, and others may wait before it
KEY_VARIABLE = "ATOLL_LOCAL_KEY"

_START_TIMEOUT_SECONDS = 120.0
_log = logging.getLogger(__name__)


class LlamaServer:
    """llama.cpp with one model, on a port of loopback; it lives as long as this object."""

    def __init__(self, file: Path, *, port: int = 0, threads: int = 1, context: int = 4096, key: str = "") -> None:
        """Loads the model.

        Args:
            file: Its weights.
            port: 0 takes one that is free.
            threads: llama.cpp's threads spin: more than there are idle cores make it slower, not faster.
            context: Tokens of prompt and reply together.
            key: Who sends another one is refused; empty lets everybody on this machine in.

        Raises:
            SetupError: `xllamacpp` is not installed.
        """
        llama_module = _import_xllamacpp()
        params = llama_module.CommonParams()
        params.model.path, params.model_alias = str(file), {model_download.MODEL_NAME}
        params.hostnames, params.port = ["127.0.0.1"], port
        params.n_ctx, params.n_parallel, params.ui = context, 1, False
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.cors_origins = "http://127.0.0.1"  # no page in a browser may ask it
        params.verbosity = 0
        if key:
            params.api_keys = [key]
        self._server = llama_module.Server(params)

    @property
    def url(self) -> str:
        """The base address that clients are given."""
        return f"{self._server.listening_address}/v1"


class LocalLLM:
    """The local model: fetched when it is first asked and is not there, served by a process that goes with this one."""

    def __init__(self, *, threads: int = 1, **options: Any) -> None:
        """Checks that it can run; starts nothing yet.

        Args:
            threads: Of the server.
            options: Of `Hosted`.

        Raises:
            SetupError: `xllamacpp` is not installed.
        """
        if util.find_spec("xllamacpp") is None:
            raise errors.SetupError(_MISSING_MESSAGE)
        self._threads, self._options = threads, {"timeout_seconds": DEFAULT_TIMEOUT_SECONDS, **options}
        self._lock = Lock()
        self._model: OpenAICompatibleLLM | None = None
        self._process: subprocess.Popen[str] | None = None

    def __repr__(self) -> str:
        return f"Local({model_download.MODEL_NAME!r})"

    def __call__(self, prompt: str) -> Response:
        """Returns its reply.

        Raises:
            NoReply: There is none.
            SetupError: The weights cannot be had, or the server does not start.
        """
        with self._lock:
            self._model = self._model or self._start_server()
        return self._model(prompt)

    def close(self) -> None:
        """Ends the server; the next prompt starts another."""
        with self._lock:
            self._model, process, self._process = None, self._process, None
        if process is not None:
            _kill(process)

    def _start_server(self) -> OpenAICompatibleLLM:
        file = model_download.get_model_path()
        if not file.is_file():
            model_download.download(_log.warning)
        key = secrets.token_hex(16)
        process = subprocess.Popen(
            [sys.executable, "-m", "atoll.llm.local_server", "--threads", str(self._threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, KEY_VARIABLE: key},
        )
        self._process = process
        atexit.register(_kill, process)
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], _START_TIMEOUT_SECONDS)
        url = process.stdout.readline().strip() if ready else ""
        if not url.startswith("http://127.0.0.1:"):
            _kill(process)
            raise errors.SetupError("The local model does not start: see what 'atoll llm serve' says.")
        return OpenAICompatibleLLM(model_download.MODEL_NAME, base_url=url, api_key=key, **self._options)


_MISSING_MESSAGE = "A local model needs xllamacpp, which is not installed: pip install 'atoll[local]'."


def _import_xllamacpp() -> Any:
    try:
        import xllamacpp
    except ImportError as error:
        raise errors.SetupError(_MISSING_MESSAGE) from error
    return xllamacpp


def _kill(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m atoll.llm.local", description="Serves the local model.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    model_download.verify_file(model_download.get_model_path())
    server = LlamaServer(
        model_download.get_model_path(),
        port=options.port,
        threads=options.threads,
        key=os.environ.get(KEY_VARIABLE, ""),
    )
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    while os.read(sys.stdin.fileno(), 4096):
        time.sleep(0)


if __name__ == "__main__":
    _main()
