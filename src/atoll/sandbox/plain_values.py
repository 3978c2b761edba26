"""Converts values and arrays to JSON and back. Values from a candidate are never unpickled."""

import base64
import importlib
import math
from typing import Any

from atoll.candidate import JSON

_ARRAY_KEY = "__array__"
_NUMERIC_KINDS = "biufc"  # Boolean, integer, float, complex; no objects, which would be pickles


def to_plain(value: Any) -> JSON:
    """Converts a value to JSON; an array becomes its type, shape and bytes.

    Raises:
        TypeError: The value contains something other than plain data and numeric arrays.
    """
    match value:
        case None | bool() | str():
            return value
        case dict():
            return {_require_text_key(key): to_plain(item) for key, item in value.items()}
        case list() | tuple():
            return [to_plain(item) for item in value]
    if type(value) in (int, float):
        return value  # type: ignore[no-any-return]  # it is a number
    if type(value).__module__ == "numpy":
        return _pack_array(value)
    raise TypeError(f"{type(value).__name__} is not plain data or a numeric array")


def from_plain(data: Any) -> Any:
    """Converts untrusted JSON of `to_plain` back to values.

    Raises:
        ValueError: An array is malformed.
    """
    match data:
        case {"__array__": [str() as kind, list() as shape, str() as content], **rest} if not rest:
            return _unpack_array(kind, shape, content)
        case dict():
            return {key: from_plain(item) for key, item in data.items()}
        case list():
            return [from_plain(item) for item in data]
    return data


def _require_text_key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key is {type(key).__name__}; only strings can be keys")
    return key


def _pack_array(value: Any) -> JSON:
    numpy = importlib.import_module("numpy")
    array = numpy.asarray(value)
    if array.dtype.kind not in _NUMERIC_KINDS:
        raise TypeError(f"an array of {array.dtype} is not plain data or a numeric array")
    if not array.shape and array.dtype.kind != "c":
        return array.item()  # type: ignore[no-any-return]  # it is a number
    return {_ARRAY_KEY: [array.dtype.str, list(array.shape), base64.b64encode(array.tobytes()).decode()]}


def _unpack_array(kind: str, shape: list[Any], content: str) -> Any:
    numpy = importlib.import_module("numpy")
    if (
        len(kind) > 5
        or kind[1:2] not in (*_NUMERIC_KINDS,)
        or not all(type(size) is int and size >= 0 for size in shape)
    ):
        raise ValueError("it returned a malformed array")
    dtype, content_bytes = numpy.dtype(kind), base64.b64decode(content, validate=True)
    if math.prod(shape) * dtype.itemsize != len(content_bytes):
        raise ValueError("it returned an array whose size does not match its shape")
    return numpy.frombuffer(content_bytes, dtype).reshape(shape).copy()
