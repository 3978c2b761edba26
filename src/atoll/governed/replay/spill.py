"""Numbers that are too many for memory: they lie in a file without a name and are read from there, page by page."""

import os
import tempfile
import weakref
from array import array
from typing import Any

PAGE_SIZE = 256  # numbers that are read at once
NUMBER_BYTES = 8  # bytes of a number

type NumberArray = "array[Any] | PagedArray"


class PagedArray:
    """Numbers in a file, of which one page is at hand: whoever goes through them in order reads each page once."""

    __slots__ = ("_file_offset", "_count", "_low", "_page", "_size", "_disk_array")

    def __init__(self, disk_array: "DiskArray", file_offset: int, typecode: str, size: int) -> None:
        self._disk_array, self._file_offset, self._size = disk_array, file_offset, size
        self._low = self._count = 0
        self._page = array(typecode)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Any:
        page_index = index - self._low
        if 0 <= page_index < self._count:
            return self._page[page_index]
        if not 0 <= index < self._size:
            raise IndexError(index)
        self._low = index // PAGE_SIZE * PAGE_SIZE
        self._count = min(PAGE_SIZE, self._size - self._low)
        data = self._disk_array.read(self._file_offset + self._low * NUMBER_BYTES, self._count * NUMBER_BYTES)
        self._page = array(self._page.typecode, data)
        return self._page[index - self._low]


class DiskArray:
    """Takes arrays in and gives the same numbers back in pages; its file goes when nobody has any of them."""

    def __init__(self) -> None:
        with tempfile.TemporaryFile(prefix="atoll-spill-") as file:
            self._fd = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._fd)
        self._end = 0

    def add(self, numbers: NumberArray) -> NumberArray:
        """Returns numbers of eight bytes each as pages of the file."""
        if isinstance(numbers, PagedArray):
            return numbers
        data, file_offset = memoryview(numbers).cast("B"), self._end
        while data:
            num_written = os.pwrite(self._fd, data, self._end)
            self._end, data = self._end + num_written, data[num_written:]
        return PagedArray(self, file_offset, numbers.typecode, len(numbers))

    def read(self, offset: int, count: int) -> bytes:
        return os.pread(self._fd, count, offset)
