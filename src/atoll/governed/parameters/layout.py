"""How parameters lie in a folder, so that people and other programs can read them.

    ROOT/KEY/current.json         the newest version
    ROOT/KEY/history/v1.json      one file per version
    ROOT/KEY/lock.json            there while the key is locked
    ROOT/KEY/aliases.json         where its aliases point
    ROOT/%audit.jsonl             the log of all changes, which is the truth; the rest is written after it

A folder is named by its key with `/` and the like as `%2F`. Keys that would leave the folder (`.`, `..`) are spelled
out whole, long ones are cut and end in a hash. What begins with `%` and no number is no key's name.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from atoll import errors
from atoll.store import entry

AUDIT, LOCK = "%audit.jsonl", "%lock"
SAFE = "$&+=:@"  # with what `quote` leaves alone anyway: what a path in a URL may hold
MAX_NAME = 200  # bytes; file systems end at 255, and a file that is being written has a longer name
CUT = "%~"  # in no escaped text, where a number follows a `%`

_VERSION = re.compile(r"v(\d+)\.json")


class Kept(NamedTuple):
    """A version, or a lock, as it lies in a file."""

    version: int
    value: Any
    reason: str
    author: str
    at: str


def folder_name(key: str) -> str:
    """Returns the name of a key's folder: one name per key, and never a way out."""
    if key in (".", ".."):
        return key.replace(".", "%2E")
    name = quote(key, safe=SAFE, errors="strict")
    if len(name) <= MAX_NAME:
        return name
    shown = re.sub(r"%.?$", "", name[:100])
    return f"{shown}{CUT}{hashlib.sha256(key.encode()).hexdigest()}"


def key_of(folder: Path) -> str:
    """Returns the key of a folder; the whole of a long one stands in its files.

    Raises:
        SetupError: The file that should tell does not.
    """
    if CUT not in folder.name:
        return unquote(folder.name, errors="strict")
    key = read(folder / "current.json").get("key")
    if not isinstance(key, str) or folder_name(key) != folder.name:
        raise errors.SetupError(f"{folder} does not say which key it holds.")
    return key


def read(path: Path) -> dict[str, Any]:
    """Returns what a file says, whatever the case of its field names.

    Raises:
        SetupError: It is no JSON object.
    """
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise errors.SetupError(f"{path} cannot be read: {error}.") from error
    if not isinstance(found, dict):
        raise errors.SetupError(f"{path} holds no object.")
    return {name.lower(): each for name, each in found.items()}


def write(path: Path, body: bytes) -> None:
    """Puts a whole file in the place of another, or none."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with open(handle, "wb") as file:
        file.write(body)
    os.replace(fresh, path)


def folders(root: Path) -> Iterator[Path]:
    """Yields the folders of keys, sorted."""
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        if path.is_dir() and ((path / "current.json").exists() or (path / "history").is_dir()):
            yield path


def versions(folder: Path) -> list[Kept]:
    """Returns the versions of a key, oldest first.

    Raises:
        SetupError: One is missing, or cannot be read.
    """
    history = folder / "history"
    if not history.is_dir():
        raise errors.SetupError(f"{folder} has no history: find it, or set its value by hand.")
    numbers = sorted(int(found[1]) for path in history.iterdir() if (found := _VERSION.fullmatch(path.name)))
    if numbers != list(range(1, len(numbers) + 1)):
        raise errors.SetupError(f"{history} has a gap between v1 and v{numbers[-1]}: find the versions in between.")
    return [_kept(read(history / f"v{n}.json"), n) for n in numbers]


def lock_of(folder: Path) -> Kept | None:
    """Returns the lock of a key, or None."""
    path = folder / "lock.json"
    return _kept(read(path), 0) if path.exists() else None


def _kept(found: Mapping[str, Any], n: int) -> Kept:
    said = {name: str(found.get(name) or "") for name in ("reason", "author")}
    reason = said["reason"] if said["reason"].strip() else "imported without a reason"
    author = said["author"] if said["author"].strip() else "unknown"
    return Kept(n, found.get("value"), reason, author, str(found.get("timestamp") or ""))


def projected(made: entry.Entry, aliases: Mapping[str, int]) -> Mapping[str, bytes | None]:
    """Returns what the files of a key hold after a change, by name; None: there is none any more."""
    match made.kind:
        case entry.SET | entry.ROLLBACK:
            body = _text(_fields(made))
            return {f"history/v{made.n}.json": body, "current.json": body}
        case entry.LOCK:
            return {"lock.json": _text(_fields(made))}
        case entry.UNLOCK:
            return {"lock.json": None}
        case entry.ALIAS:
            return {"aliases.json": _text(aliases)}
    return {}


def project(root: Path, made: entry.Entry, aliases: Mapping[str, int]) -> None:
    """Writes what a change means into the folder of its key; the same change again changes nothing."""
    folder = root / folder_name(made.key)
    if made.n is not None:
        (folder / "history").mkdir(parents=True, exist_ok=True)
    for name, body in projected(made, aliases).items():
        if body is None:
            (folder / name).unlink(missing_ok=True)
        else:
            write(folder / name, body)


def check_place(folder: Path) -> None:
    """Looks whether a key's folder is where it seems to be.

    Raises:
        StoreFailed: It, or its history, is a link: what is written there would land elsewhere.
    """
    for place in (folder, folder / "history"):
        if place.is_symlink():
            raise errors.StoreFailed(f"{place} is a link, and a key lies in a folder: put the folder in its place.")


def _text(data: Mapping[str, Any]) -> bytes:
    return f"{json.dumps(data, ensure_ascii=False)}\n".encode("utf-8", "surrogatepass")


def _fields(made: entry.Entry) -> dict[str, Any]:
    value = None if made.value is None else json.loads(made.value)
    version = made.n if made.n is not None else made.target
    texts = {"reason": made.reason, "timestamp": made.at, "author": made.author}
    return {"key": made.key, "version": version, "value": value, **texts, "kind": made.kind, "seq": made.seq}
