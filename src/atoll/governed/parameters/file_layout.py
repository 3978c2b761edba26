"""A folder of parameters as a whole: its log read, checked and begun."""

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
from atoll.store.records import json_codec
from atoll.store.versions import audit, change, ledger
from atoll.store.versions import errors as versions_errors

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
    version_numbers = sorted(
        int(match[1]) for path in history.iterdir() if (match := _VERSION_FILE.fullmatch(path.name))
    )
    if version_numbers != list(range(1, len(version_numbers) + 1)):
        raise errors.SetupError(
            f"{history} has a gap between v1 and v{version_numbers[-1]}: find the versions in between."
        )
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


def render_files(change_entry: change.ChangeEntry, aliases: Mapping[str, int]) -> Mapping[str, bytes | None]:
    """Returns what the files of a key hold after a change, by name; None: there is none any more."""
    match change_entry.kind:
        case change.SET | change.ROLLBACK:
            data = _encode_json(_entry_to_json(change_entry))
            return {f"history/v{change_entry.n}.json": data, "current.json": data}
        case change.LOCK:
            return {"lock.json": _encode_json(_entry_to_json(change_entry))}
        case change.UNLOCK:
            return {"lock.json": None}
        case change.ALIAS:
            return {"aliases.json": _encode_json(aliases)}
    return {}


def write_change(root: Path, change_entry: change.ChangeEntry, aliases: Mapping[str, int]) -> None:
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


def _entry_to_json(change_entry: change.ChangeEntry) -> dict[str, Any]:
    value = None if change_entry.value is None else json.loads(change_entry.value)
    version = change_entry.n if change_entry.n is not None else change_entry.target
    texts = {"reason": change_entry.reason, "timestamp": change_entry.at, "author": change_entry.author}
    return {
        "key": change_entry.key,
        "version": version,
        "value": value,
        **texts,
        "kind": change_entry.kind,
        "seq": change_entry.seq,
    }


def parse_line(line: bytes) -> Sequence[change.ChangeEntry]:
    """Returns the entries of a line of the log: one, or those of a transaction.

    Raises:
        ValueError: It is not what was written.
    """
    text = line.decode()
    if not text.startswith("["):
        return [audit.parse_line(text)]
    entries = [change.ChangeEntry(**fields) for fields in json.loads(text)]
    if f"[{','.join(map(audit.format_line, entries))}]" != text:
        raise ValueError("a line of the log is not written as it should be")
    return entries


@contextmanager
def lock_folder(root: Path) -> Iterator[None]:
    """Keeps other writers out of a folder; the lock ends with the process, however that ends."""
    fd = os.open(root / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def end_last_line(root: Path) -> None:
    """Gives a whole last line the end that it lost: it tells of a change that was acknowledged, perhaps."""
    log = root / AUDIT_FILE
    if not log.exists() or log.stat().st_size == 0:
        return
    with log.open("rb+") as lines:
        lines.seek(-1, os.SEEK_END)
        if lines.read() == b"\n":
            return
        with lock_folder(root):  # nobody is in the middle of writing it
            lines.seek(0)
            if _is_complete(lines.read().rpartition(b"\n")[2]):
                lines.write(b"\n")


def repair_tail(log: Path, offset: int) -> None:
    """Sees to what stands behind the last line that has an end: a whole line gets its end, half a one is cut off.

    Raises:
        StoreFailed: It is a whole line with another end, or the log ends before the place that was read up to.
    """
    size = log.stat().st_size if log.exists() else 0
    if size < offset - 1:
        raise errors.StoreFailed(f"{log} was cut while it was in use: put it back from a copy.")
    with log.open("rb+") as lines:
        lines.seek(max(offset - 1, 0))
        last_byte = lines.read(1) if offset else b"\n"
        tail = lines.read()
        if _is_complete(tail[:-1]) or (tail and last_byte != b"\n"):
            raise errors.StoreFailed(f"The last line of {log} was changed: 'atoll audit verify' says more.")
        if last_byte != b"\n" or _is_complete(tail):  # whoever wrote the line had it acknowledged, perhaps
            lines.write(b"\n")
        elif tail:
            lines.truncate(offset)


def _is_complete(line: bytes) -> bool:
    try:
        return bool(parse_line(line))
    except (ValueError, TypeError):
        return False


def verify_folder(root: Path, anchors: Sequence[audit.Anchor] = ()) -> audit.AuditReport:
    """Checks the log of a folder byte by byte, and that every key lies there as the log says.

    What the last line changed may be missing in the files, if its writer died; the next one makes up for it.

    Raises:
        ChainBroken: Something is not what was written.
    """
    if not root.is_dir():
        raise errors.SetupError(f"There is no folder {root}.")
    with lock_folder(root):
        lines = list(_iter_lines(root / AUDIT_FILE)) if (root / AUDIT_FILE).exists() else []
        report = audit.verify((change_entry for line in lines for change_entry in parse_line(line)), anchors)
        index = store.MemoryChangeLog()
        with index.begin_write() as writer:
            for line in lines:
                for each in parse_line(line):
                    writer.append(each)
        unconfirmed_seq = parse_line(lines[-1])[0].seq if lines else 0
        key_by_folder = {folder_name(key): key for key in index.list_keys("")}
        for folder in iter_folders(root):
            if folder.name not in key_by_folder:
                raise versions_errors.ChainBroken(f"{folder} holds a key of which the log says nothing.", report.seq)
        for name, key in key_by_folder.items():
            _check_files(root / name, key, index, unconfirmed_seq)
    return report


def _iter_lines(log: Path) -> Iterator[bytes]:
    """Yields the lines of a log; a last one without an end is one that nobody finished, unless it is whole."""
    with log.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n") or _is_complete(line[:-1]) or _is_complete(line):
                yield line.removesuffix(b"\n")


def _check_files(folder: Path, key: str, index: store.MemoryChangeLog, unconfirmed_seq: int) -> None:
    """Compares the files of a key with the log, byte by byte; changes from `unsure` on may be missing in them."""
    entries = sorted(
        [*index.list_history(key, 0), *index.list_annotations(key)], key=lambda change_entry: change_entry.seq
    )
    last_alias_seq = max(
        (
            change_entry.seq
            for change_entry in entries
            if change_entry.kind == change.ALIAS and change_entry.seq < unconfirmed_seq
        ),
        default=0,
    )
    expected: dict[str, set[bytes | None]] = {}
    for each in entries:
        if each.kind == change.ALIAS and each.seq < last_alias_seq:
            continue  # a later one says it all
        aliases = ledger.VersionLedger(index).get_aliases(key, each.seq) if each.kind == change.ALIAS else {}
        for name, data in render_files(each, aliases).items():
            expected[name] = {data} if each.seq < unconfirmed_seq else {*expected.get(name, {None}), data}
    try:
        check_not_link(folder)
        existing = {
            path.relative_to(folder).as_posix() for path in (*folder.glob("*.json"), *folder.glob("history/*.json"))
        }
        for name in sorted(existing | expected.keys()):
            if (_read_bytes(folder / name) if name in existing else None) not in expected.get(name, {None}):
                raise versions_errors.ChainBroken(_describe_mismatch(folder, name, key), entries[-1].seq)
    except (OSError, errors.StoreFailed) as error:
        raise versions_errors.ChainBroken(f"{key}: {error}", entries[-1].seq) from error


def _read_bytes(path: Path) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read()


def _describe_mismatch(folder: Path, name: str, key: str) -> str:
    match name:
        case "current.json":
            return f"{folder} does not hold the newest version of {key}."
        case "lock.json":
            return f"{folder} does not say whether, and by whom, {key} is locked as the log does."
    return f"{folder / name} is not what the log says of {key}."


def import_folder(root: Path, target: ledger.VersionLedger, prefix: str = "") -> Sequence[str]:
    """Takes the parameters of a folder into a ledger, in one change, in the order of their times; returns the keys.

    Raises:
        SetupError: A file is missing or cannot be read.
        StoreFailed: A folder is a link.
        VersionConflict: There is such a key already.
    """
    requests: list[tuple[str, str, int, ledger.ChangeRequest]] = []
    keys = []
    for folder in iter_folders(root):
        check_not_link(folder)
        keys.append(key := prefix + get_key(folder))
        timestamp = ""  # a version is never older than the one before it
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
            )  # behind all versions
    target.apply(*(row[-1] for row in sorted(requests, key=lambda row: row[:3])))
    return keys


def check_log_not_removed(root: Path) -> None:
    """Looks whether folders without a log never had one, as those of the original layout.

    Raises:
        StoreFailed: They had one: whoever removed it could have them say anything.
    """
    versions = (
        path for folder in iter_folders(root) for path in (*folder.glob("*.json"), *folder.glob("history/*.json"))
    )
    had_log = any("seq" in read_json(path) for path in versions if path.name != "aliases.json")
    if had_log or (root / LOCK_FILE).exists():
        raise errors.StoreFailed(
            f"The log {root / AUDIT_FILE} is gone, and without it nobody knows what the folders beside it should "
            f"say: put it back from a copy. If there never was one, remove {LOCK_FILE}."
        )


def _make_request(kind: str, key: str, stored: StoredFile, timestamp: str, **options: Any) -> ledger.ChangeRequest:
    return ledger.ChangeRequest(
        kind=kind, key=key, reason=stored.reason, author=stored.author, timestamp=timestamp or None, **options
    )


def _encode_value(stored: StoredFile) -> str:
    return json_codec.encode(stored.value)


def _parse_time(key: str, text: str) -> str:
    try:
        return ledger.format_timestamp(datetime.fromisoformat(text)) if text else ""
    except ValueError as error:
        raise errors.SetupError(f"{text!r} of {key} is no time: {error}.") from error
