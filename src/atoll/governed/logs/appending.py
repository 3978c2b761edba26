"""Appending lines to day files from any number of processes."""

import fcntl
import os
from collections import OrderedDict

from atoll import errors

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
