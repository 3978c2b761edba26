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


def read_line(line: bytes) -> Sequence[entry.Entry]:
    """Returns the entries of a line of the log: one, or those of a transaction.

    Raises:
        ValueError: It is not what was written.
    """
    text = line.decode()
    if not text.startswith("["):
        return [audit.read_line(text)]
    made = [entry.Entry(**each) for each in json.loads(text)]
    if f"[{','.join(map(audit.line, made))}]" != text:
        raise ValueError("a line of the log is not written as it should be")
    return made


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """Keeps other writers out of a folder; the lock ends with the process, however that ends."""
    handle = os.open(root / layout.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def check_tail(log: Path, offset: int) -> None:
    """Looks at what stands behind the last line that has an end: half a line may be cut off, a whole one not.

    Raises:
        StoreFailed: It is a whole line with another end.
    """
    with log.open("rb") as lines:
        lines.seek(offset)
        if _is_whole(lines.read()[:-1]):
            raise errors.StoreFailed(f"The last line of {log} was changed: 'atoll audit verify' says more.")


def _is_whole(line: bytes) -> bool:
    try:
        return bool(read_line(line))
    except (ValueError, TypeError):
        return False


def verify(root: Path, anchors: Sequence[audit.Anchor] = ()) -> audit.Report:
    """Checks the log of a folder byte by byte, and that every key lies there as the log says.

    What the last line changed may be missing in the files, if its writer died; the next one makes up for it.

    Raises:
        ChainBroken: Something is not what was written.
    """
    if not root.is_dir():
        raise errors.SetupError(f"There is no folder {root}.")
    with alone(root):
        lines = list(_lines(root / layout.AUDIT)) if (root / layout.AUDIT).exists() else []
        found = audit.verify((each for line in lines for each in read_line(line)), anchors)
        index = store.MemoryBook()
        with index.writing() as pen:
            for line in lines:
                for each in read_line(line):
                    pen.put(each)
        last = [each.key for each in (read_line(lines[-1]) if lines else ()) if each.n is not None]
        for key in index.keys(""):
            _compare(root / layout.folder_name(key), key, index, last.count(key))
    return found


def _lines(log: Path) -> Iterator[bytes]:
    """Yields the lines of a log; a last one without an end is one that nobody finished, unless it is whole."""
    with log.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n") or _is_whole(line[:-1]):
                yield line.removesuffix(b"\n")


def _compare(place: Path, key: str, index: store.MemoryBook, num_unsure: int) -> None:
    """Compares the files of a key with its history, the last changes of which may be missing."""
    history = index.history(key, 0)
    sure = len(history) - num_unsure
    if sure == 0 and not place.exists():
        return
    try:
        kept = [(each.version, each.value, each.reason, each.author) for each in layout.versions(place)]
        newest = layout.read(place / "current.json") if kept or sure else {}
        is_locked = layout.lock_of(place) is not None
    except errors.SetupError as error:
        raise refusals.ChainBroken(f"{key}: {error}", history[-1].seq) from error
    wanted = [(each.n, json.loads(each.value or "null"), each.reason, each.author) for each in history]
    for number, (said, right) in enumerate(zip(kept, wanted, strict=False)):
        if said != right:
            raise refusals.ChainBroken(f"Version {right[0]} of {key} is not what the log says.", history[number].seq)
    heads = [each[:2] for each in wanted[max(sure - 1, 0) :]]
    if not sure <= len(kept) <= len(history) or (newest.get("version"), newest.get("value")) not in heads:
        raise refusals.ChainBroken(f"{place} does not hold the newest version of {key}.", history[-1].seq)
    is_last_turn = index.tail().seq in {each.seq for each in index.beside(key)}
    if is_locked != (ledger.Ledger(index).lock_of(key) is not None) and not is_last_turn:
        raise refusals.ChainBroken(f"{place} does not say whether {key} is locked as the log does.", history[-1].seq)


def adopt(root: Path, into: ledger.Ledger, under: str = "") -> Sequence[str]:
    """Takes the parameters of a folder into a ledger, in one change, in the order of their times; returns the keys.

    Raises:
        SetupError: A file is missing or cannot be read.
        VersionConflict: There is such a key already.
    """
    found: list[tuple[str, str, int, ledger.Operation]] = []
    keys = []
    for folder in layout.folders(root):
        keys.append(key := under + layout.key_of(folder))
        at = ""  # a version is never older than the one before it
        for each in layout.versions(folder):
            at = max(at, _time(key, each.at))
            first = {"expected": 0} if each.version == 1 else {}
            found.append((at, key, each.version, _asked(entry.SET, key, each, at, value=_text(each), **first)))
        if (lock := layout.lock_of(folder)) is not None:
            found.append(("~", key, 0, _asked(entry.LOCK, key, lock, _time(key, lock.at))))  # behind all versions
    into.change(*(each[-1] for each in sorted(found, key=lambda each: each[:3])))
    return keys


def _asked(kind: str, key: str, kept: layout.Kept, at: str, **rest: Any) -> ledger.Operation:
    return ledger.Operation(kind=kind, key=key, reason=kept.reason, author=kept.author, at=at or None, **rest)


def _text(kept: layout.Kept) -> str:
    return packing.encode(kept.value)


def _time(key: str, said: str) -> str:
    try:
        return ledger.stamp(datetime.fromisoformat(said)) if said else ""
    except ValueError as error:
        raise errors.SetupError(f"{said!r} of {key} is no time: {error}.") from error
