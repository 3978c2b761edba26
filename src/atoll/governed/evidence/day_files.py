"""Day files: append lines from any number of processes, read complete lines, and convert times."""

import contextlib
import fcntl
import os
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from atoll import errors
from atoll.governed.evidence.logs import to_utc

MAX_OPEN_FILES = 16  # open files: several days or entities


class LineAppender:
    """Appends complete lines, each by one write to a file opened with O_APPEND, so lines are neither torn nor lost.

    Measured with 8 writers on a local file system (`scripts/bench governed_logs`). Network file systems do not
    guarantee this; `with_lock` locks the file for each line there.
    """

    def __init__(self, *, with_lock: bool = False) -> None:
        self._files: OrderedDict[str, int] = OrderedDict()
        self._with_lock = with_lock
        weakref.finalize(self, _close_all, self._files)  # also without `close`

    def append(self, path: str, line: bytes) -> None:
        """Appends a line; creates its file and folder if missing.

        Raises:
            StoreFailed: The line could not be written completely, for example because the disk is full.
        """
        try:
            fd, ends_with_newline = self._open(path)
            line = line if ends_with_newline else b"\n" + line
            num_written = self._write_with_lock(fd, line) if self._with_lock else os.write(fd, line)
        except OSError as error:
            raise errors.StoreFailed(f"{path} could not be written: {error.strerror}.") from error
        if num_written != len(line):
            self._close(path)  # reopening it ends the partial line
            raise errors.StoreFailed(f"{path} took only {num_written} of {len(line)} bytes. Free space on its disk.")

    def _open(self, path: str) -> tuple[int, bool]:
        fd = self._files.get(path)
        if fd is not None and os.fstat(fd).st_nlink:  # otherwise the file was deleted, and the line would be lost
            return fd, True
        self._close(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        fd = self._files[path] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        if len(self._files) > MAX_OPEN_FILES:
            os.close(self._files.popitem(last=False)[1])
        size = os.fstat(fd).st_size
        # End the partial line of a crashed writer or full disk; readers report it.
        return fd, not size or os.pread(fd, 1, size - 1) == b"\n"

    @staticmethod
    def _write_with_lock(fd: int, line: bytes) -> int:
        fcntl.lockf(fd, fcntl.LOCK_EX)
        try:
            return os.write(fd, line)
        finally:
            fcntl.lockf(fd, fcntl.LOCK_UN)

    def _close(self, path: str) -> None:
        fd = self._files.pop(path, None)
        if fd is not None:
            os.close(fd)

    def close(self) -> None:
        """Closes all files. A later line reopens its file."""
        _close_all(self._files)


def _close_all(files: OrderedDict[str, int]) -> None:
    while files:
        os.close(files.popitem()[1])


BLOCK_BYTES = 1 << 15  # bytes per read; fits the cache of a core, a fifth faster than 1 << 18
MAX_LINE_BYTES = 64 << 20  # a longer line without an end is not part of a log


class LineBlock(NamedTuple):
    """Consecutive complete lines.

    Attributes:
        offset: Start of the first line.
        data: The lines with their ends.
    """

    offset: int
    data: bytes


class LineReader:
    """Reads blocks of complete lines. An incomplete line is held back, since its writer may still be active.

    Readers can see the first half of a line, because the bytes of one `write` become visible page by page.
    """

    def __init__(self, path: str, offset: int = 0) -> None:
        self._path, self.offset, self.num_partial_bytes = path, offset, 0

    def iter_blocks(self) -> Iterator[LineBlock]:
        """Yields complete lines until the current end of the file.

        Afterwards `offset` is the start of the first incomplete line, and `rest` its number of bytes.
        """
        fd = os.open(self._path, os.O_RDONLY)
        try:
            partial = b""
            while chunk := os.pread(fd, max(BLOCK_BYTES, len(partial)), self.offset + len(partial)):
                end = chunk.rfind(b"\n") + 1
                if not end and len(partial) < MAX_LINE_BYTES:
                    partial += chunk
                    continue
                block = LineBlock(self.offset, partial + (chunk[:end] or chunk))
                partial = chunk[end:] if end else b""
                self.offset += len(block.data)
                yield block
            self.num_partial_bytes = len(partial)
        finally:
            os.close(fd)


SUFFIX = ".jsonl"


def make_file_name(timestamp: datetime) -> str:
    """Returns the file name for the UTC day of a time."""
    return f"{to_utc(timestamp).date().isoformat()}{SUFFIX}"


def parse_day(name: str) -> date | None:
    """Returns the day of a file name, None if the name is not a day."""
    if not name.endswith(SUFFIX) or len(name) != len("2026-01-01") + len(SUFFIX):
        return None
    with contextlib.suppress(ValueError):
        return date.fromisoformat(name.removesuffix(SUFFIX))
    return None


def list_day_files(folder: str, since: date = date.min, until: date = date.max) -> Sequence[str]:
    """Returns the file names of a range of days, oldest first; none if the folder does not exist."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    dated_names = ((parse_day(name), name) for name in names)
    return [name for day, name in sorted((day, name) for day, name in dated_names if day and since <= day <= until)]


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def to_micros(timestamp: datetime) -> int:
    return (to_utc(timestamp) - EPOCH) // MICROSECOND


def from_micros(micros: int) -> datetime:
    return EPOCH + timedelta(0, 0, micros)  # positional: twice as fast as keywords
