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

AUDIT_FILE, LOCK_FILE = "%audit.jsonl", "%lock"
SAFE_CHARS = "$&+=:@"  # with what `quote` leaves alone anyway: what a path in a URL may hold
MAX_NAME_BYTES = 200  # bytes; file systems end at 255, and a file that is being written has a longer name
TRUNCATION_MARK = "%~"  # in no escaped text, where a number follows a `%`

_VERSION_FILE = re.compile(r"v(\d+)\.json")


class StoredFile(NamedTuple):
    """A version, or a lock, as it lies in a file."""

    version: int
    value: Any
    reason: str
    author: str
    timestamp: str


def folder_name(key: str) -> str:
    """Returns the name of a key's folder: one name per key, and never a way out."""
    if key in (".", ".."):
        return key.replace(".", "%2E")
    name = quote(key, safe=SAFE_CHARS, errors="strict")
    if len(name) <= MAX_NAME_BYTES:
        return name
    readable = re.sub(r"%.?$", "", name[:100])
    return f"{readable}{TRUNCATION_MARK}{hashlib.sha256(key.encode()).hexdigest()}"


def get_key(folder: Path) -> str:
    """Returns the key of a folder; the whole of a long one stands in its files.

    Raises:
        SetupError: The file that should tell does not.
    """
    if TRUNCATION_MARK not in folder.name:
        return unquote(folder.name, errors="strict")
    key = read_json(folder / "current.json").get("key")
    if not isinstance(key, str) or folder_name(key) != folder.name:
        raise errors.SetupError(f"{folder} does not say which key it holds.")
    return key


def read_json(path: Path) -> dict[str, Any]:
    """Returns what a file says, whatever the case of its field names.

    Raises:
        SetupError: It is no JSON object.
    """
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise errors.SetupError(f"{path} cannot be read: {error}.") from error
    if not isinstance(data, dict):
        raise errors.SetupError(f"{path} holds no object.")
    return {name.lower(): value for name, value in data.items()}


def write_atomically(path: Path, data: bytes) -> None:
    """Puts a whole file in the place of another, or none."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with open(fd, "wb") as file:
        file.write(data)
    os.replace(temporary, path)


def iter_folders(root: Path) -> Iterator[Path]:
    """Yields the folders of keys, sorted."""
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        if path.is_dir() and ((path / "current.json").exists() or (path / "history").is_dir()):
            yield path


def load_versions(folder: Path) -> list[StoredFile]:
    """Returns the versions of a key, oldest first.

    Raises:
        SetupError: One is missing, or cannot be read.
    """
    history = folder / "history"
    if not history.is_dir():
        raise errors.SetupError(f"{folder} has no history: find it, or set its value by hand.")
    version_numbers = sorted(int(match[1]) for path in history.iterdir() if (match := _VERSION_FILE.fullmatch(path.name)))
    if version_numbers != list(range(1, len(version_numbers) + 1)):
        raise errors.SetupError(f"{history} has a gap between v1 and v{version_numbers[-1]}: find the versions in between.")
    return [_parse_stored(read_json(history / f"v{version}.json"), version) for version in version_numbers]


def load_lock(folder: Path) -> StoredFile | None:
    """Returns the lock of a key, or None."""
    path = folder / "lock.json"
    return _parse_stored(read_json(path), 0) if path.exists() else None


def _parse_stored(data: Mapping[str, Any], version: int) -> StoredFile:
    texts = {name: str(data.get(name) or "") for name in ("reason", "author")}
    reason = texts["reason"] if texts["reason"].strip() else "imported without a reason"
    author = texts["author"] if texts["author"].strip() else "unknown"
    return StoredFile(version, data.get("value"), reason, author, str(data.get("timestamp") or ""))


def render_files(change_entry: entry.ChangeEntry, aliases: Mapping[str, int]) -> Mapping[str, bytes | None]:
    """Returns what the files of a key hold after a change, by name; None: there is none any more."""
    match change_entry.kind:
        case entry.SET | entry.ROLLBACK:
            data = _encode_json(_entry_to_json(change_entry))
            return {f"history/v{change_entry.n}.json": data, "current.json": data}
        case entry.LOCK:
            return {"lock.json": _encode_json(_entry_to_json(change_entry))}
        case entry.UNLOCK:
            return {"lock.json": None}
        case entry.ALIAS:
            return {"aliases.json": _encode_json(aliases)}
    return {}


def write_change(root: Path, change_entry: entry.ChangeEntry, aliases: Mapping[str, int]) -> None:
    """Writes what a change means into the folder of its key; the same change again changes nothing."""
    folder = root / folder_name(change_entry.key)
    if change_entry.n is not None:
        (folder / "history").mkdir(parents=True, exist_ok=True)
    for name, data in render_files(change_entry, aliases).items():
        if data is None:
            (folder / name).unlink(missing_ok=True)
        else:
            write_atomically(folder / name, data)


def check_not_link(folder: Path) -> None:
    """Looks whether a key's folder is where it seems to be.

    Raises:
        StoreFailed: It, or its history, is a link: what is written there would land elsewhere.
    """
    for path in (folder, folder / "history"):
        if path.is_symlink():
            raise errors.StoreFailed(f"{path} is a link, and a key lies in a folder: put the folder in its place.")


def _encode_json(data: Mapping[str, Any]) -> bytes:
    return f"{json.dumps(data, ensure_ascii=False)}\n".encode("utf-8", "surrogatepass")


def _entry_to_json(change_entry: entry.ChangeEntry) -> dict[str, Any]:
    value = None if change_entry.value is None else json.loads(change_entry.value)
    version = change_entry.n if change_entry.n is not None else change_entry.target
    texts = {"reason": change_entry.reason, "timestamp": change_entry.at, "author": change_entry.author}
    return {"key": change_entry.key, "version": version, "value": value, **texts, "kind": change_entry.kind, "seq": change_entry.seq}
