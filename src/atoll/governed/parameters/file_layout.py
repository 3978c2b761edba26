"""File layout of parameter folders: reading, writing, repairing, verifying and importing them."""

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from atoll import errors, store
from atoll.governed.errors import ChainBroken
from atoll.store.records import json_codec
from atoll.store.versions import audit, change, ledger

AUDIT_FILE, LOCK_FILE = "%audit.jsonl", "%lock"
SAFE_CHARS = "$&+=:@"  # not escaped, in addition to the characters that `quote` leaves alone
MAX_NAME_BYTES = 200  # bytes; file systems allow 255, and temporary files have longer names
TRUNCATION_MARK = "%~"  # never part of an escaped key, where digits follow a `%`

_VERSION_FILE = re.compile(r"v(\d+)\.json")


class StoredFile(NamedTuple):
    """Version or lock as stored in a file."""

    version: int
    value: Any
    reason: str
    author: str
    timestamp: str


def folder_name(key: str) -> str:
    """Returns the folder name of a key. Names are unique and stay inside the root."""
    if key in (".", ".."):
        return key.replace(".", "%2E")
    name = quote(key, safe=SAFE_CHARS, errors="strict")
    if len(name) <= MAX_NAME_BYTES:
        return name
    readable = re.sub(r"%.?$", "", name[:100])
    return f"{readable}{TRUNCATION_MARK}{hashlib.sha256(key.encode()).hexdigest()}"


def get_key(folder: Path) -> str:
    """Returns the key of a folder. Long keys are read from the files in it.

    Raises:
        SetupError: The files do not contain the key.
    """
    if TRUNCATION_MARK not in folder.name:
        return unquote(folder.name, errors="strict")
    key = read_json(folder / "current.json").get("key")
    if not isinstance(key, str) or folder_name(key) != folder.name:
        raise errors.SetupError(f"The files in {folder} do not name their key. Restore the folder from a backup.")
    return key


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object with field names in either case.

    Raises:
        SetupError: The file is not a JSON object.
    """
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise errors.SetupError(f"{path} cannot be read: {error}.") from error
    if not isinstance(data, dict):
        raise errors.SetupError(f"{path} is not a JSON object.")
    return {name.lower(): value for name, value in data.items()}


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces a file in one step."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with open(fd, "wb") as file:
        file.write(data)
    os.replace(temporary, path)


def iter_folders(root: Path) -> Iterator[Path]:
    """Yields the folders of all keys, sorted."""
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        if path.is_dir() and ((path / "current.json").exists() or (path / "history").is_dir()):
            yield path


def load_versions(folder: Path) -> list[StoredFile]:
    """Returns the versions of a key, oldest first.

    Raises:
        SetupError: A version is missing or unreadable.
    """
    history = folder / "history"
    if not history.is_dir():
        raise errors.SetupError(f"{folder} has no history folder. Restore it from a backup.")
    numbers = sorted(int(match[1]) for path in history.iterdir() if (match := _VERSION_FILE.fullmatch(path.name)))
    if numbers != list(range(1, len(numbers) + 1)):
        raise errors.SetupError(f"{history} lacks versions from v1 to v{numbers[-1]}. Restore them from a backup.")
    return [_parse_stored(read_json(history / f"v{version}.json"), version) for version in numbers]


def load_lock(folder: Path) -> StoredFile | None:
    """Returns the lock of a key, or None."""
    path = folder / "lock.json"
    return _parse_stored(read_json(path), 0) if path.exists() else None


def _parse_stored(data: Mapping[str, Any], version: int) -> StoredFile:
    texts = {name: str(data.get(name) or "") for name in ("reason", "author")}
    reason = texts["reason"] if texts["reason"].strip() else "imported without a reason"
    author = texts["author"] if texts["author"].strip() else "unknown"
    return StoredFile(version, data.get("value"), reason, author, str(data.get("timestamp") or ""))


def render_files(entry: change.ChangeEntry, aliases: Mapping[str, int]) -> Mapping[str, bytes | None]:
    """Returns the file contents of a key after a change, by file name; None: the file is removed."""
    match entry.kind:
        case change.SET | change.ROLLBACK:
            data = _encode_json(_entry_to_json(entry))
            return {f"history/v{entry.n}.json": data, "current.json": data}
        case change.LOCK:
            return {"lock.json": _encode_json(_entry_to_json(entry))}
        case change.UNLOCK:
            return {"lock.json": None}
        case change.ALIAS:
            return {"aliases.json": _encode_json(aliases)}
    return {}


def write_change(root: Path, entry: change.ChangeEntry, aliases: Mapping[str, int]) -> None:
    """Writes a change into the folder of its key. Writing it twice has no further effect."""
    folder = root / folder_name(entry.key)
    if entry.n is not None:
        (folder / "history").mkdir(parents=True, exist_ok=True)
    for name, data in render_files(entry, aliases).items():
        if data is None:
            (folder / name).unlink(missing_ok=True)
        else:
            write_atomically(folder / name, data)


def check_not_link(folder: Path) -> None:
    """Checks that the folder of a key is not a link.

    Raises:
        StoreFailed: The folder or its history is a link, so files would be written elsewhere.
    """
    for path in (folder, folder / "history"):
        if path.is_symlink():
            raise errors.StoreFailed(f"{path} is a link. Replace it by the folder itself.")


def _encode_json(data: Mapping[str, Any]) -> bytes:
    return f"{json.dumps(data, ensure_ascii=False)}\n".encode("utf-8", "surrogatepass")


def _entry_to_json(entry: change.ChangeEntry) -> dict[str, Any]:
    value = None if entry.value is None else json.loads(entry.value)
    version = entry.n if entry.n is not None else entry.target
    texts = {"reason": entry.reason, "timestamp": entry.at, "author": entry.author}
    return {"key": entry.key, "version": version, "value": value, **texts, "kind": entry.kind, "seq": entry.seq}


def parse_line(line: bytes) -> Sequence[change.ChangeEntry]:
    """Returns the entries of one line of the log. A transaction is one line.

    Raises:
        ValueError: The line differs from its canonical form.
    """
    text = line.decode()
    if not text.startswith("["):
        return [audit.parse_line(text)]
    entries = [change.ChangeEntry(**fields) for fields in json.loads(text)]
    if f"[{','.join(map(audit.format_line, entries))}]" != text:
        raise ValueError("a line of the log is not in canonical form")
    return entries


@contextmanager
def lock_folder(root: Path) -> Iterator[None]:
    """Holds the write lock of a folder. It ends with the process."""
    fd = os.open(root / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def end_last_line(root: Path) -> None:
    """Completes a last line that lacks only its newline, since its change may have been acknowledged."""
    log = root / AUDIT_FILE
    if not log.exists() or log.stat().st_size == 0:
        return
    with log.open("rb+") as lines:
        lines.seek(-1, os.SEEK_END)
        if lines.read() == b"\n":
            return
        with lock_folder(root):  # the lock keeps other writers out
            lines.seek(0)
            if _is_complete(lines.read().rpartition(b"\n")[2]):
                lines.write(b"\n")


def repair_tail(log: Path, offset: int) -> None:
    """Repairs the end of the log: a complete line gets its newline, a partial line is removed.

    Raises:
        StoreFailed: The last line was modified, or the log is shorter than what was read before.
    """
    size = log.stat().st_size if log.exists() else 0
    if size < offset - 1:
        raise errors.StoreFailed(f"{log} was truncated while in use. Restore it from a backup.")
    with log.open("rb+") as lines:
        lines.seek(max(offset - 1, 0))
        last_byte = lines.read(1) if offset else b"\n"
        tail = lines.read()
        if _is_complete(tail[:-1]) or (tail and last_byte != b"\n"):
            raise errors.StoreFailed(f"The last line of {log} was changed. Run 'atoll audit verify' for details.")
        if last_byte != b"\n" or _is_complete(tail):  # the writer may have acknowledged it
            lines.write(b"\n")
        elif tail:
            lines.truncate(offset)


def _is_complete(line: bytes) -> bool:
    try:
        return bool(parse_line(line))
    except (ValueError, TypeError):
        return False


def verify_folder(root: Path, anchors: Sequence[audit.Anchor] = ()) -> audit.AuditReport:
    """Checks the log of a folder byte by byte, and the files of every key against it.

    Files of the last change may be missing if its writer crashed. The next writer restores them.

    Raises:
        ChainBroken: The log or a file was modified.
    """
    if not root.is_dir():
        raise errors.SetupError(f"Folder {root} not found.")
    with lock_folder(root):
        lines = list(_iter_lines(root / AUDIT_FILE)) if (root / AUDIT_FILE).exists() else []
        report = audit.verify((entry for line in lines for entry in parse_line(line)), anchors)
        index = store.MemoryChangeLog()
        with index.begin_write() as writer:
            for line in lines:
                for entry in parse_line(line):
                    writer.append(entry)
        unconfirmed_seq = parse_line(lines[-1])[0].seq if lines else 0
        key_by_folder = {folder_name(key): key for key in index.list_keys("")}
        for folder in iter_folders(root):
            if folder.name not in key_by_folder:
                raise ChainBroken(f"{folder} holds a key that is not in the log.", report.seq)
        for name, key in key_by_folder.items():
            _check_files(root / name, key, index, unconfirmed_seq)
    return report


def _iter_lines(log: Path) -> Iterator[bytes]:
    """Yields the lines of a log, without a partial last line."""
    with log.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n") or _is_complete(line[:-1]) or _is_complete(line):
                yield line.removesuffix(b"\n")


def _check_files(folder: Path, key: str, index: store.MemoryChangeLog, unconfirmed_seq: int) -> None:
    """Compares the files of a key with the log. Files of changes from `unconfirmed_seq` on may be missing."""
    entries = sorted([*index.list_history(key, 0), *index.list_annotations(key)], key=lambda entry: entry.seq)
    last_alias_seq = max(
        (entry.seq for entry in entries if entry.kind == change.ALIAS and entry.seq < unconfirmed_seq), default=0
    )
    expected: dict[str, set[bytes | None]] = {}
    for entry in entries:
        if entry.kind == change.ALIAS and entry.seq < last_alias_seq:
            continue  # replaced by a later change
        aliases = ledger.VersionLedger(index).get_aliases(key, entry.seq) if entry.kind == change.ALIAS else {}
        for name, data in render_files(entry, aliases).items():
            expected[name] = {data} if entry.seq < unconfirmed_seq else {*expected.get(name, {None}), data}
    try:
        check_not_link(folder)
        existing = {
            path.relative_to(folder).as_posix() for path in (*folder.glob("*.json"), *folder.glob("history/*.json"))
        }
        for name in sorted(existing | expected.keys()):
            if (_read_bytes(folder / name) if name in existing else None) not in expected.get(name, {None}):
                raise ChainBroken(_describe_mismatch(folder, name, key), entries[-1].seq)
    except (OSError, errors.StoreFailed) as error:
        raise ChainBroken(f"{key}: {error}", entries[-1].seq) from error


def _read_bytes(path: Path) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read()


def _describe_mismatch(folder: Path, name: str, key: str) -> str:
    match name:
        case "current.json":
            return f"{folder} does not hold the newest version of {key}."
        case "lock.json":
            return f"The lock file in {folder} does not match the log of {key}."
    return f"{folder / name} does not match the log of {key}."


def list_folder_keys(root: Path) -> Sequence[str]:
    """Returns the keys of a folder."""
    return [get_key(folder) for folder in iter_folders(root)]


def import_folder(root: Path, target: ledger.VersionLedger, prefix: str = "") -> Sequence[str]:
    """Imports the parameters of a folder as one change, ordered by time, and returns the keys.

    Raises:
        SetupError: A file is missing or unreadable.
        StoreFailed: A folder is a link.
        VersionConflict: A key already exists.
    """
    requests: list[tuple[str, str, int, store.ChangeRequest]] = []
    keys = []
    for folder in iter_folders(root):
        check_not_link(folder)
        keys.append(key := prefix + get_key(folder))
        timestamp = ""  # versions are never older than the previous one
        for stored in load_versions(folder):
            timestamp = max(timestamp, _parse_time(key, stored.timestamp))
            options = {"expected": 0} if stored.version == 1 else {}
            requests.append(
                (
                    timestamp,
                    key,
                    stored.version,
                    _make_request(change.SET, key, stored, timestamp, value=_encode_value(stored), **options),
                )
            )
        if (lock := load_lock(folder)) is not None:
            requests.append(
                ("~", key, 0, _make_request(change.LOCK, key, lock, _parse_time(key, lock.timestamp)))
            )  # after all versions
    target.apply(*(row[-1] for row in sorted(requests, key=lambda row: row[:3])))
    return keys


def check_log_not_removed(root: Path) -> None:
    """Checks that a folder without a log never had one, as in the original layout.

    Raises:
        StoreFailed: The log was removed, so the files cannot be trusted.
    """
    versions = (
        path for folder in iter_folders(root) for path in (*folder.glob("*.json"), *folder.glob("history/*.json"))
    )
    had_log = any("seq" in read_json(path) for path in versions if path.name != "aliases.json")
    if had_log or (root / LOCK_FILE).exists():
        raise errors.StoreFailed(
            f"The log {root / AUDIT_FILE} is missing, so the folders cannot be verified. Restore it from a backup. "
            f"If it never existed, remove {LOCK_FILE}."
        )


def _make_request(kind: str, key: str, stored: StoredFile, timestamp: str, **options: Any) -> store.ChangeRequest:
    return store.ChangeRequest(
        kind=kind, key=key, reason=stored.reason, author=stored.author, timestamp=timestamp or None, **options
    )


def _encode_value(stored: StoredFile) -> str:
    return json_codec.encode(stored.value)


def _parse_time(key: str, text: str) -> str:
    try:
        return ledger.format_timestamp(datetime.fromisoformat(text)) if text else ""
    except ValueError as error:
        raise errors.SetupError(f"Time {text!r} of {key} is invalid: {error}.") from error
