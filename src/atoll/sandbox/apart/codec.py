"""Messages between an evaluator and a program in another sandbox: JSON and the bytes of arrays, never pickles.

A message is a header, JSON, and the bytes of its arrays. Plain values and arrays travel by value and keep their type.
Other objects stay where they are, and the other side gets a number for them (`Exporter`). Every value that is read may
come from a hostile program, so the reader accepts only what the writer can write.

Processes that an evaluator starts load this file by its path, so it uses only the standard library.
"""

import collections
import dataclasses
import importlib
import json
import keyword
import linecache
import math
import os
import re
import struct
import types
from collections.abc import Callable
from typing import Any

HEADER = struct.Struct("!QII")  # number of the call, size of the JSON, size of the array bytes
_SCALARS = frozenset({type(None), bool, str, int, float})
_DTYPE = re.compile(r"[<>|=]?[biufcUSMm]\d{1,6}(?:\[\d{0,4}[a-zA-Z]{1,2}\])?")
# `json.JSONEncoder.encode` would create such an encoder for every text.
_encode_json: Callable[[Any, int], tuple[str, ...]] = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, json.JSONEncoder().default, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, True
)
_scan_json: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_READ_BYTES = 2**12  # holds most messages; more would cost an allocation for each
_INVALID = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    StopIteration,
    SyntaxError,
    TypeError,
    ValueError,
)
_MAX_DIMENSIONS = 32
MAX_FRAMES, _MAX_LINE, _MAX_LINE_CHARS = 10, 5000, 300  # of a traceback
_FUNCTION = re.compile(r"<?[^\W\d]\w{0,99}>?")
_FRAME_CODE = (lambda: (yield)).__code__  # of a generator: its frame keeps no caller alive
_source_lines = dict[str, dict[int, str]]()  # lines of programs that are in a traceback, by path
_classes = dict[tuple[str, str, tuple[str, ...]], Any]()  # classes made for named tuples and dataclasses


class MalformedError(Exception):
    """The message does not follow the format."""


# Replaces an object that cannot travel by value with a tag; reads such a tag. Both may raise TypeError.
type Export = Callable[[Any], Any]
type Import = Callable[[str, Any], Any]


def pack(number: int, value: Any, export: Export) -> bytes:
    """Returns the bytes of a message.

    Raises:
        TypeError: The value contains something that cannot be sent.
    """
    blobs: list[bytes] = []
    try:
        text = "".join(_encode_json(_Writer(blobs, export).encode(value), 0)).encode()
    except RecursionError:
        raise TypeError("a value is nested too deep, or contains itself") from None
    except ValueError as error:  # an integer with thousands of digits
        raise TypeError(str(error)) from None
    if not blobs:
        return HEADER.pack(number, len(text), 0) + text
    return b"".join([HEADER.pack(number, len(text), sum(map(len, blobs))), text, *blobs])


def unpack(text: bytes, blob: bytes, read_tag: Import) -> Any:
    """Returns the value of a message.

    Raises:
        MalformedError: The message does not follow the format.
    """
    try:
        data, end = _scan_json(text.decode(), 0)
        if end != len(text):
            raise ValueError("text after the value")
        return _Reader(blob, read_tag).decode(data)
    except _INVALID as error:
        raise MalformedError(f"malformed message: {error}"[:300]) from None


class _Writer:
    def __init__(self, blobs: list[bytes], export: Export) -> None:
        self._blobs, self._export, self._offset = blobs, export, 0

    def encode(self, value: Any) -> Any:
        kind = type(value)
        if kind in _SCALARS:
            return value
        if kind is list:
            return value if _SCALARS.issuperset(map(type, value)) else [self.encode(item) for item in value]
        if kind is tuple:
            if _SCALARS.issuperset(map(type, value)):
                return {"t": value}
            return {"t": [self.encode(item) for item in value]}
        if kind.__module__ == "numpy" and hasattr(value, "dtype"):
            return self._encode_array(value)
        return self._encode_other(value, kind)

    def _encode_other(self, value: Any, kind: type) -> Any:
        if isinstance(value, dict):
            return {"d": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return {"nt": [kind.__name__, list(kind._fields), [self.encode(item) for item in value]]}
        match value:
            case bytes() | bytearray():
                return {"b" if kind is bytes else "y": self._add_blob(bytes(value))}
            case complex():
                return {"c": [value.real, value.imag]}
            case range():
                return {"r": [value.start, value.stop, value.step]}
            case set() | frozenset():
                return {"s" if isinstance(value, set) else "f": [self.encode(item) for item in value]}
            case bool() | int() | float() | str():  # of a subclass: only its value travels
                return self.encode(next(plain for plain in (int, float, str) if isinstance(value, plain))(value))
            case list():
                return [self.encode(item) for item in value]
        if _is_record(value, kind):
            items = {field.name: self.encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
            return {"dc": [kind.__name__, items]}
        return self._export(value)

    def _encode_array(self, value: Any) -> Any:
        dtype = value.dtype
        if not hasattr(value, "tobytes"):
            return self._export(value)  # a dtype
        if dtype.kind == "O":
            return {"ao": [list(value.shape), [self.encode(item) for item in value.ravel().tolist()]]}
        if not _DTYPE.fullmatch(dtype.str):
            raise TypeError(f"an array of {dtype} cannot be sent")
        if not getattr(value, "shape", ()) and type(value).__name__ != "ndarray":
            return {"n": [dtype.str, self._add_blob(value.tobytes())]}
        return {"a": [dtype.str, list(value.shape), self._add_blob(value.tobytes())]}

    def _add_blob(self, data: bytes) -> list[int]:
        self._blobs.append(data)
        self._offset += len(data)
        return [self._offset - len(data), len(data)]


def _is_record(value: Any, kind: type) -> bool:
    """Returns whether a value is a dataclass without methods of its own: data alone."""
    if not dataclasses.is_dataclass(value):
        return False
    own = [name for base in kind.__mro__[:-1] for name, item in vars(base).items() if callable(item)]
    return all(name.startswith("__") for name in own)


class _Reader:
    def __init__(self, blob: bytes, read_tag: Import) -> None:
        self._blob, self._read_tag = blob, read_tag

    def decode(self, data: Any) -> Any:
        kind = type(data)
        if kind is list:
            return data if _SCALARS.issuperset(map(type, data)) else [self.decode(item) for item in data]
        if kind is not dict:
            return data
        ((tag, content),) = data.items()
        match tag:
            case "t":
                if type(content) is list and _SCALARS.issuperset(map(type, content)):
                    return tuple(content)
                return tuple([self.decode(item) for item in content])
            case "d":
                return {self.decode(key): self.decode(item) for key, item in content}
            case "s" | "f":
                return (set if tag == "s" else frozenset)(self.decode(item) for item in content)
            case "a" | "n" | "ao":
                return self._decode_array(tag, *content)
            case "b" | "y":
                return (bytes if tag == "b" else bytearray)(self._get_blob(*content))
            case "c":
                return complex(float(content[0]), float(content[1]))
            case "r":
                return range(*map(_require_int, content))
            case "nt":
                return self._decode_named_tuple(*content)
            case "dc":
                return self._decode_record(*content)
        return self._read_tag(tag, content)

    def _decode_array(self, tag: str, dtype_text: Any, *rest: Any) -> Any:
        numpy = importlib.import_module("numpy")
        if tag == "ao":
            shape, items = dtype_text, rest[0]
            array = numpy.empty(math.prod(_require_shape(shape, len(items))), dtype=object)
            for index, item in enumerate(items):
                array[index] = self.decode(item)
            return array.reshape(shape)
        if not _DTYPE.fullmatch(dtype_text):
            raise ValueError("type of an array")
        dtype, content = numpy.dtype(dtype_text), self._get_blob(*rest[-1])
        if tag == "n":
            return numpy.frombuffer(content, dtype, 1)[0]
        _require_shape(rest[0], len(content) // dtype.itemsize)
        return numpy.frombuffer(content, dtype).reshape(rest[0]).copy()

    def _decode_named_tuple(self, name: str, fields: list[str], items: list[Any]) -> Any:
        key = ("nt", require_name(name), tuple(require_name(field) for field in fields))
        if key not in _classes:
            _classes[key] = collections.namedtuple(name, fields)
        return _classes[key](*(self.decode(item) for item in items))

    def _decode_record(self, name: str, items: dict[str, Any]) -> Any:
        key = ("dc", require_name(name), tuple(require_name(field) for field in items))
        if key not in _classes:
            _classes[key] = dataclasses.make_dataclass(name, list(items))
        return _classes[key](**{field: self.decode(item) for field, item in items.items()})

    def _get_blob(self, offset: int, size: int) -> bytes:
        if _require_int(offset) < 0 or _require_int(size) < 0 or offset + size > len(self._blob):
            raise ValueError("bytes of an array")
        return self._blob[offset : offset + size]


def _require_shape(shape: Any, num_items: int) -> Any:
    if len(shape) > _MAX_DIMENSIONS or math.prod(map(_require_int, shape)) != num_items or any(n < 0 for n in shape):
        raise ValueError("shape of an array")
    return shape


def _require_int(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("a number is not an integer")
    return value


def require_name(value: Any) -> str:
    if not is_public_name(value):
        raise ValueError("name")
    return str(value)


def is_public_name(value: Any) -> bool:
    """Returns whether a value is a name that a module or class may have, other than `__name__` and the like."""
    return type(value) is str and value.isidentifier() and not keyword.iskeyword(value) and not value.startswith("__")


class Pipes:
    """Both pipes of a link, as one side uses them: one to read, one to write.

    Args:
        read_fd: Pipe to read.
        write_fd: Pipe to write.
        max_bytes: Largest message to read.
    """

    def __init__(self, read_fd: int, write_fd: int, max_bytes: int) -> None:
        self.read_fd, self.write_fd, self._max_bytes, self._rest = read_fd, write_fd, max_bytes, b""

    @classmethod
    def open(cls, folder: str, reads: str, writes: str, max_bytes: int) -> "Pipes":
        """Opens the named pipes in a folder."""
        # Opened for both, so that neither side waits for the other, and so that a lost reader sends no signal.
        flags = os.O_RDWR | os.O_CLOEXEC
        return cls(os.open(f"{folder}/{reads}", flags), os.open(f"{folder}/{writes}", flags), max_bytes)

    def send(self, message: bytes) -> None:
        sent = os.write(self.write_fd, message)
        while sent < len(message):
            sent += os.write(self.write_fd, memoryview(message)[sent:])

    def receive(self) -> tuple[int, bytes, bytes]:
        """Returns the number, the JSON and the array bytes of the next message.

        Raises:
            MalformedError: The message is too large.
        """
        data = self._rest or os.read(self.read_fd, _READ_BYTES)
        while len(data) < HEADER.size:
            data += os.read(self.read_fd, _READ_BYTES)
        number, text_size, blob_size = HEADER.unpack_from(data)
        if text_size + blob_size > self._max_bytes:
            raise MalformedError(f"a message of more than {self._max_bytes} bytes")
        start, end = HEADER.size, HEADER.size + text_size + blob_size
        if len(data) < end:
            chunks, missing = [data], end - len(data)
            while missing > 0:
                chunks.append(os.read(self.read_fd, min(max(missing, 2**16), 2**20)))
                missing -= len(chunks[-1])
            data = b"".join(chunks)
        self._rest = data[end:]  # mostly empty: a side answers before it gets the next message
        return number, data[start : start + text_size], data[start + text_size : end]

    def has_rest(self) -> bool:
        """Returns whether a part of the next message was read already."""
        return bool(self._rest)


def make_traceback(frames: list[Any], path: str) -> types.TracebackType | None:
    """Returns a traceback through a file, as if its code had run in this process. Its source lines go to `linecache`.

    Args:
        frames: Line number, function and source line of each frame, outermost first. Others are left out.
    """
    tb, lines = None, _source_lines.setdefault(path, {})
    for frame in reversed(frames[-MAX_FRAMES:]):
        match frame:
            case [int() as number, str() as name, str() as line] if 0 < number <= _MAX_LINE:
                lines[number] = line.partition("\n")[0][:_MAX_LINE_CHARS] + "\n"
                code = _FRAME_CODE.replace(co_filename=path, co_name=name if _FUNCTION.fullmatch(name) else "<module>")
                generator = types.FunctionType(code, {"__name__": "program"})()
                tb = types.TracebackType(tb, generator.gi_frame, -1, number)  # -1: Python then shows `number`
    if tb is not None:
        source = [lines.get(number, "\n") for number in range(1, max(lines) + 1)]
        linecache.cache[path] = (1, None, source, path)  # without a time it is not compared with the file
    return tb
