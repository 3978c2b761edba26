"""Complete lines of a file that others may be appending to."""

import os
from collections.abc import Iterator
from typing import NamedTuple

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
