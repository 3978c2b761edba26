"""A folder of parameters as a whole: its log read, checked and begun."""

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from atoll import errors, store
from atoll.governed.parameters import layout
from atoll.store import audit, entry, ledger, packing, refusals


def parse_line(line: bytes) -> Sequence[entry.ChangeEntry]:
    """Returns the entries of a line of the log: one, or those of a transaction.

    Raises:
        ValueError: It is not what was written.
    """
    text = line.decode()
    if not text.startswith("["):
        return [audit.parse_line(text)]
    entries = [entry.ChangeEntry(**fields) for fields in json.loads(text)]
    if f"[{','.join(map(audit.format_line, entries))}]" != text:
        raise ValueError("a line of the log is not written as it should be")
    return entries


@contextmanager
def lock_folder(root: Path) -> Iterator[None]:
    """Keeps other writers out of a folder; the lock ends with the process, however that ends."""
    fd = os.open(root / layout.LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def end_last_line(root: Path) -> None:
    """Gives a whole last line the end that it lost: it tells of a change that was acknowledged, perhaps."""
    log = root / layout.AUDIT_FILE
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
        lines = list(_iter_lines(root / layout.AUDIT_FILE)) if (root / layout.AUDIT_FILE).exists() else []
        report = audit.verify((change_entry for line in lines for change_entry in parse_line(line)), anchors)
        index = store.MemoryChangeLog()
        with index.begin_write() as writer:
            for line in lines:
                for each in parse_line(line):
                    writer.append(each)
        unconfirmed_seq = parse_line(lines[-1])[0].seq if lines else 0
        key_by_folder = {layout.folder_name(key): key for key in index.list_keys("")}
        for folder in layout.iter_folders(root):
            if folder.name not in key_by_folder:
                raise refusals.ChainBroken(f"{folder} holds a key of which the log says nothing.", report.seq)
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
    entries = sorted([*index.list_history(key, 0), *index.list_annotations(key)], key=lambda change_entry: change_entry.seq)
    last_alias_seq = max((change_entry.seq for change_entry in entries if change_entry.kind == entry.ALIAS and change_entry.seq < unconfirmed_seq), default=0)
    expected: dict[str, set[bytes | None]] = {}
    for each in entries:
        if each.kind == entry.ALIAS and each.seq < last_alias_seq:
            continue  # a later one says it all
        aliases = ledger.VersionLedger(index).get_aliases(key, each.seq) if each.kind == entry.ALIAS else {}
        for name, data in layout.render_files(each, aliases).items():
            expected[name] = {data} if each.seq < unconfirmed_seq else {*expected.get(name, {None}), data}
    try:
        layout.check_not_link(folder)
        existing = {path.relative_to(folder).as_posix() for path in (*folder.glob("*.json"), *folder.glob("history/*.json"))}
        for name in sorted(existing | expected.keys()):
            if (_read_bytes(folder / name) if name in existing else None) not in expected.get(name, {None}):
                raise refusals.ChainBroken(_describe_mismatch(folder, name, key), entries[-1].seq)
    except (OSError, errors.StoreFailed) as error:
        raise refusals.ChainBroken(f"{key}: {error}", entries[-1].seq) from error


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
    for folder in layout.iter_folders(root):
        layout.check_not_link(folder)
        keys.append(key := prefix + layout.get_key(folder))
        timestamp = ""  # a version is never older than the one before it
        for stored in layout.load_versions(folder):
            timestamp = max(timestamp, _parse_time(key, stored.timestamp))
            options = {"expected": 0} if stored.version == 1 else {}
            requests.append((timestamp, key, stored.version, _make_request(entry.SET, key, stored, timestamp, value=_encode_value(stored), **options)))
        if (lock := layout.load_lock(folder)) is not None:
            requests.append(("~", key, 0, _make_request(entry.LOCK, key, lock, _parse_time(key, lock.timestamp))))  # behind all versions
    target.apply(*(row[-1] for row in sorted(requests, key=lambda row: row[:3])))
    return keys


def check_log_not_removed(root: Path) -> None:
    """Looks whether folders without a log never had one, as those of the original layout.

    Raises:
        StoreFailed: They had one: whoever removed it could have them say anything.
    """
    versions = (
        path for folder in layout.iter_folders(root) for path in (*folder.glob("*.json"), *folder.glob("history/*.json"))
    )
    had_log = any("seq" in layout.read_json(path) for path in versions if path.name != "aliases.json")
    if had_log or (root / layout.LOCK_FILE).exists():
        raise errors.StoreFailed(
            f"The log {root / layout.AUDIT_FILE} is gone, and without it nobody knows what the folders beside it should "
            f"say: put it back from a copy. If there never was one, remove {layout.LOCK_FILE}."
        )


def _make_request(kind: str, key: str, stored: layout.StoredFile, timestamp: str, **options: Any) -> ledger.ChangeRequest:
    return ledger.ChangeRequest(kind=kind, key=key, reason=stored.reason, author=stored.author, timestamp=timestamp or None, **options)


def _encode_value(stored: layout.StoredFile) -> str:
    return packing.encode(stored.value)


def _parse_time(key: str, text: str) -> str:
    try:
        return ledger.format_timestamp(datetime.fromisoformat(text)) if text else ""
    except ValueError as error:
        raise errors.SetupError(f"{text!r} of {key} is no time: {error}.") from error
