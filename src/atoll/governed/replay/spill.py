"""Numbers that are too many for memory: they lie in a file without a name and are read from there, page by page."""

import os
import tempfile
import weakref
from array import array
from typing import Any

PAGE = 256  # numbers that are read at once
WIDTH = 8  # bytes of a number

type Numbers = "array[Any] | Paged"


class Paged:
    """Numbers in a file, of which one page is at hand: whoever goes through them in order reads each page once."""

    __slots__ = ("_begin", "_count", "_low", "_page", "_size", "_spill")

    def __init__(self, spill: "Spill", begin: int, kind: str, size: int) -> None:
        self._spill, self._begin, self._size = spill, begin, size
        self._low = self._count = 0
        self._page = array(kind)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: int) -> Any:
        at = place - self._low
        if 0 <= at < self._count:
            return self._page[at]
        if not 0 <= place < self._size:
            raise IndexError(place)
        self._low = place // PAGE * PAGE
        self._count = min(PAGE, self._size - self._low)
        body = self._spill.read(self._begin + self._low * WIDTH, self._count * WIDTH)
        self._page = array(self._page.typecode, body)
        return self._page[place - self._low]


class Spill:
    """Takes arrays in and gives the same numbers back in pages; its file goes when nobody has any of them."""

    def __init__(self) -> None:
        with tempfile.TemporaryFile(prefix="atoll-spill-") as file:
            self._fd = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._fd)
        self._end = 0

    def take(self, numbers: Numbers) -> Numbers:
        """Returns numbers of eight bytes each as pages of the file."""
        if isinstance(numbers, Paged):
            return numbers
        body, begin = memoryview(numbers).cast("B"), self._end
        while body:
            written = os.pwrite(self._fd, body, self._end)
            self._end, body = self._end + written, body[written:]
        return Paged(self, begin, numbers.typecode, len(numbers))

    def read(self, begin: int, count: int) -> bytes:
        return os.pread(self._fd, count, begin)
