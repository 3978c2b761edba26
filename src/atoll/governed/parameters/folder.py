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


def end_last_line(root: Path) -> None:
    """Gives a whole last line the end that it lost: it tells of a change that was acknowledged, perhaps."""
    log = root / layout.AUDIT
    if not log.exists() or log.stat().st_size == 0:
        return
    with log.open("rb+") as lines:
        lines.seek(-1, os.SEEK_END)
        if lines.read() == b"\n":
            return
        with alone(root):  # nobody is in the middle of writing it
            lines.seek(0)
            if _is_whole(lines.read().rpartition(b"\n")[2]):
                lines.write(b"\n")


def mend_tail(log: Path, offset: int) -> None:
    """Sees to what stands behind the last line that has an end: a whole line gets its end, half a one is cut off.

    Raises:
        StoreFailed: It is a whole line with another end, or the log ends before the place that was read up to.
    """
    size = log.stat().st_size if log.exists() else 0
    if size < offset - 1:
        raise errors.StoreFailed(f"{log} was cut while it was in use: put it back from a copy.")
    with log.open("rb+") as lines:
        lines.seek(max(offset - 1, 0))
        end = lines.read(1) if offset else b"\n"
        tail = lines.read()
        if _is_whole(tail[:-1]) or (tail and end != b"\n"):
            raise errors.StoreFailed(f"The last line of {log} was changed: 'atoll audit verify' says more.")
        if end != b"\n" or _is_whole(tail):  # whoever wrote the line had it acknowledged, perhaps
            lines.write(b"\n")
        elif tail:
            lines.truncate(offset)


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
        unsure = read_line(lines[-1])[0].seq if lines else 0
        known = {layout.folder_name(key): key for key in index.keys("")}
        for place in layout.folders(root):
            if place.name not in known:
                raise refusals.ChainBroken(f"{place} holds a key of which the log says nothing.", found.seq)
        for name, key in known.items():
            _compare(root / name, key, index, unsure)
    return found


def _lines(log: Path) -> Iterator[bytes]:
    """Yields the lines of a log; a last one without an end is one that nobody finished, unless it is whole."""
    with log.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n") or _is_whole(line[:-1]) or _is_whole(line):
                yield line.removesuffix(b"\n")


def _compare(place: Path, key: str, index: store.MemoryBook, unsure: int) -> None:
    """Compares the files of a key with the log, byte by byte; changes from `unsure` on may be missing in them."""
    made = sorted([*index.history(key, 0), *index.beside(key)], key=lambda each: each.seq)
    aliased = max((each.seq for each in made if each.kind == entry.ALIAS and each.seq < unsure), default=0)
    right: dict[str, set[bytes | None]] = {}
    for each in made:
        if each.kind == entry.ALIAS and each.seq < aliased:
            continue  # a later one says it all
        aliases = ledger.Ledger(index).aliases(key, each.seq) if each.kind == entry.ALIAS else {}
        for name, body in layout.projected(each, aliases).items():
            right[name] = {body} if each.seq < unsure else {*right.get(name, {None}), body}
    try:
        layout.check_place(place)
        there = {path.relative_to(place).as_posix() for path in (*place.glob("*.json"), *place.glob("history/*.json"))}
        for name in sorted(there | right.keys()):
            if (_body(place / name) if name in there else None) not in right.get(name, {None}):
                raise refusals.ChainBroken(_difference(place, name, key), made[-1].seq)
    except (OSError, errors.StoreFailed) as error:
        raise refusals.ChainBroken(f"{key}: {error}", made[-1].seq) from error


def _body(path: Path) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read()


def _difference(place: Path, name: str, key: str) -> str:
    match name:
        case "current.json":
            return f"{place} does not hold the newest version of {key}."
        case "lock.json":
            return f"{place} does not say whether, and by whom, {key} is locked as the log does."
    return f"{place / name} is not what the log says of {key}."


def adopt(root: Path, into: ledger.Ledger, under: str = "") -> Sequence[str]:
    """Takes the parameters of a folder into a ledger, in one change, in the order of their times; returns the keys.

    Raises:
        SetupError: A file is missing or cannot be read.
        StoreFailed: A folder is a link.
        VersionConflict: There is such a key already.
    """
    found: list[tuple[str, str, int, ledger.Operation]] = []
    keys = []
    for folder in layout.folders(root):
        layout.check_place(folder)
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


def require_original(root: Path) -> None:
    """Looks whether folders without a log never had one, as those of the original layout.

    Raises:
        StoreFailed: They had one: whoever removed it could have them say anything.
    """
    versions = (
        path for place in layout.folders(root) for path in (*place.glob("*.json"), *place.glob("history/*.json"))
    )
    had = any("seq" in layout.read(path) for path in versions if path.name != "aliases.json")
    if had or (root / layout.LOCK).exists():
        raise errors.StoreFailed(
            f"The log {root / layout.AUDIT} is gone, and without it nobody knows what the folders beside it should "
            f"say: put it back from a copy. If there never was one, remove {layout.LOCK}."
        )


def _asked(kind: str, key: str, kept: layout.Kept, at: str, **rest: Any) -> ledger.Operation:
    return ledger.Operation(kind=kind, key=key, reason=kept.reason, author=kept.author, at=at or None, **rest)


def _text(kept: layout.Kept) -> str:
    return packing.encode(kept.value)


def _time(key: str, said: str) -> str:
    try:
        return ledger.stamp(datetime.fromisoformat(said)) if said else ""
    except ValueError as error:
        raise errors.SetupError(f"{said!r} of {key} is no time: {error}.") from error
