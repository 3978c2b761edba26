"""Complete lines of a file that others may be appending to."""

import os
from collections.abc import Iterator
from typing import NamedTuple

BLOCK_BYTES = (
    1 << 15
)  # read at a time: what its lines become still fits a core's own cache, a fifth faster than 1 << 18
LONGEST_LINE = 64 << 20  # what has no end for so long is no line of a log


class Block(NamedTuple):
    """Complete lines that stand behind each other, each with its end.

    Attributes:
        offset: Where the first one begins.
        body: The lines.
    """

    offset: int
    body: bytes


class Lines:
    """Reads blocks of complete lines; what has no end yet is held back, since its writer is at work.

    A reader that meets a writer can see the first half of a line: the bytes of one `write` become visible page by page.
    """

    def __init__(self, path: str, offset: int = 0) -> None:
        self._path, self.offset, self.rest = path, offset, 0

    def blocks(self) -> Iterator[Block]:
        """Yields what is complete, until the end of the file as it is when that is reached.

        Afterwards `offset` is where the first line without an end begins and `rest` how many bytes of it are there.
        """
        file = os.open(self._path, os.O_RDONLY)
        try:
            held = b""
            while fresh := os.pread(file, max(BLOCK_BYTES, len(held)), self.offset + len(held)):
                end = fresh.rfind(b"\n") + 1
                if not end and len(held) < LONGEST_LINE:
                    held += fresh
                    continue
                block = Block(self.offset, held + (fresh[:end] or fresh))
                held = fresh[end:] if end else b""
                self.offset += len(block.body)
                yield block
            self.rest = len(held)
        finally:
            os.close(file)
