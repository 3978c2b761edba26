"""Local LLM without an API key: llama.cpp in a separate process, on loopback.

`python -m atoll.llm.local_server` serves until its standard input closes, so it ends with the process that started it.
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

DEFAULT_TIMEOUT_SECONDS = 300.0  # some tokens per second on one thread, and calls wait for each other
KEY_VARIABLE = "ATOLL_LOCAL_KEY"

_START_TIMEOUT_SECONDS = 120.0
_log = logging.getLogger(__name__)


class LlamaServer:
    """llama.cpp with one model, on a loopback port; ends with this object."""

    def __init__(self, file: Path, *, port: int = 0, threads: int = 1, context: int = 4096, key: str = "") -> None:
        """Loads the model.

        Args:
            file: Model weights.
            port: 0 picks a free one.
            threads: CPU threads. They spin, so more threads than idle cores are slower.
            context: Maximum tokens of prompt and response together.
            key: Required API key; empty admits every local process.

        Raises:
            SetupError: `xllamacpp` is not installed.
        """
        llama_module = _import_xllamacpp()
        params = llama_module.CommonParams()
        params.model.path, params.model_alias = str(file), {model_download.MODEL_NAME}
        params.hostnames, params.port = ["127.0.0.1"], port
        params.n_ctx, params.n_parallel, params.ui = context, 1, False
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.cors_origins = "http://127.0.0.1"  # blocks pages in a browser
        params.verbosity = 0
        if key:
            params.api_keys = [key]
        self._server = llama_module.Server(params)

    @property
    def url(self) -> str:
        """Base address for clients."""
        return f"{self._server.listening_address}/v1"


class LocalLLM:
    """Local LLM. The first call downloads the model if necessary and starts a server, which ends with this process."""

    def __init__(self, *, threads: int = 1, **options: Any) -> None:
        """Checks the installation; starts nothing.

        Args:
            threads: CPU threads of the server.
            options: Options of `HostedLLM`.

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
        return f"LocalLLM({model_download.MODEL_NAME!r})"

    def __call__(self, prompt: str) -> Response:
        """Returns the response.

        Raises:
            LLMError: The LLM did not respond.
            SetupError: The download failed, or the server does not start.
        """
        with self._lock:
            self._model = self._model or self._start_server()
        return self._model(prompt)

    def close(self) -> None:
        """Ends the server. The next call starts another."""
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
            raise errors.SetupError("The local LLM does not start. Run 'atoll llm serve' to see the error.")
        return OpenAICompatibleLLM(model_download.MODEL_NAME, base_url=url, api_key=key, **self._options)


_MISSING_MESSAGE = "The local LLM needs xllamacpp, which is not installed. Run pip install 'atoll[local]'."


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
    parser = argparse.ArgumentParser(prog="python -m atoll.llm.local_server", description="Serve the local LLM.")
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
