"""Appending lines to day files from any number of processes."""

import contextlib
import fcntl
import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from atoll import errors
from atoll.governed.evidence.logs import to_utc

MAX_OPEN_FILES = 16  # files kept open: several days, or several entities


class LineAppender:
    """Appends whole lines, each by ONE write to a file opened with O_APPEND: no line is torn and none is lost.

    Measured with 8 writers on a local file system (`scripts/bench governed_logs`). A network file system promises no
    such thing: there `with_lock` takes a lock for each line.
    """

    def __init__(self, *, with_lock: bool = False) -> None:
        self._files: OrderedDict[str, int] = OrderedDict()
        self._with_lock = with_lock

    def append(self, path: str, line: bytes) -> None:
        """Appends a line, making its file and folder where there are none.

        Raises:
            StoreFailed: It could not be written, or not whole: the disk is full, say.
        """
        try:
            fd, ends_with_newline = self._open(path)
            line = line if ends_with_newline else b"\n" + line
            num_written = self._write_with_lock(fd, line) if self._with_lock else os.write(fd, line)
        except OSError as error:
            raise errors.StoreFailed(f"{path} could not be written: {error.strerror}.") from error
        if num_written != len(line):
            self._close(path)  # opened again, its half line is given an end
            raise errors.StoreFailed(f"{path} took {num_written} of {len(line)} bytes: make room on its disk.")

    def _open(self, path: str) -> tuple[int, bool]:
        fd = self._files.get(path)
        if fd is not None and os.fstat(fd).st_nlink:  # else somebody deleted it, and lines would go nowhere
            return fd, True
        self._close(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        fd = self._files[path] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        if len(self._files) > MAX_OPEN_FILES:
            os.close(self._files.popitem(last=False)[1])
        size = os.fstat(fd).st_size
        # A writer that died, or met a full disk, left a half line: it gets an end, and readers report it.
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
        """Closes all files; a later line opens its file again."""
        for path in list(self._files):
            self._close(path)


BLOCK_BYTES = (
    1 << 15
)  # read at a time: what its lines become still fits a core's own cache, a fifth faster than 1 << 18
MAX_LINE_BYTES = 64 << 20  # what has no end for so long is no line of a log


class LineBlock(NamedTuple):
    """Complete lines that stand behind each other, each with its end.

    Attributes:
        offset: Where the first one begins.
        body: The lines.
    """

    offset: int
    data: bytes


class LineReader:
    """Reads blocks of complete lines; what has no end yet is held back, since its writer is at work.

    A reader that meets a writer can see the first half of a line: the bytes of one `write` become visible page by page.
    """

    def __init__(self, path: str, offset: int = 0) -> None:
        self._path, self.offset, self.num_partial_bytes = path, offset, 0

    def iter_blocks(self) -> Iterator[LineBlock]:
        """Yields what is complete, until the end of the file as it is when that is reached.

        Afterwards `offset` is where the first line without an end begins and `rest` how many bytes of it are there.
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
    """Returns the file name of the UTC day of a moment."""
    return f"{to_utc(timestamp).date().isoformat()}{SUFFIX}"


def parse_day(name: str) -> date | None:
    """Returns the day of a file name, None if it is none."""
    if not name.endswith(SUFFIX) or len(name) != len("2026-01-01") + len(SUFFIX):
        return None
    with contextlib.suppress(ValueError):
        return date.fromisoformat(name.removesuffix(SUFFIX))
    return None


def list_day_files(folder: str, since: date = date.min, until: date = date.max) -> Sequence[str]:
    """Returns the names of the files from one day to another, oldest first; none where there is no folder."""
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
    return EPOCH + timedelta(0, 0, micros)  # by place: half the time of by name
