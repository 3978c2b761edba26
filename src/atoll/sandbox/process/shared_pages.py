"""The memory that a zygote shares with its candidates.

A fork shares every page until one of the two writes to it, and a copy costs three microseconds. Most writes of a short
evaluation are no candidate's own: the interpreter counts references to functions and classes that were there before,
and fills the holes between them. Both can be spared before the first fork.
"""

import ctypes
import gc
import sys
import types
from collections.abc import Iterator

_IMMORTAL_REFCOUNT = 2**32 - 1  # of references, in Python 3.12 and 3.13: it is never changed
# What nobody misses when it is not freed; an object with a file or a lock in it must still end with its last reference.
_IMMORTAL_TYPES = frozenset(
    {
        types.FunctionType,
        types.BuiltinFunctionType,
        types.ModuleType,
        types.MethodDescriptorType,
        types.WrapperDescriptorType,
        types.GetSetDescriptorType,
        types.MemberDescriptorType,
        property,
        classmethod,
        staticmethod,
    }
)
_POOL_BYTES, _POOL_HEADER_BYTES = (
    2**14,
    48,
)  # bytes that small objects of one size share, and those before the first of them
_MAX_OBJECT_BYTES, _ALIGNMENT = 512, 16
_EMPTY_BYTES_SIZE = sys.getsizeof(b"")

_fillers = list[object]()


def prepare_for_fork() -> None:
    """Has later forks write to fewer of the pages that are there now; for good, so for a zygote only."""
    gc.collect()
    if sys.getrefcount(None) == _IMMORTAL_REFCOUNT:
        for obj in _iter_immortals():
            ctypes.c_uint32.from_address(id(obj)).value = _IMMORTAL_REFCOUNT
    _fill_holes()
    gc.freeze()  # else the first collection of every candidate would copy all pages


def _iter_immortals() -> Iterator[object]:
    """Yields functions and classes, their parts and their names; data is left alone, however much there is."""
    for obj in gc.get_objects():
        kind = type(obj)
        if kind in _IMMORTAL_TYPES:
            yield obj
        if kind is types.FunctionType:
            yield from (obj.__name__, obj.__qualname__)
            yield from _iter_code_parts(obj.__code__)
        elif kind is types.ModuleType:
            yield from vars(obj)
        elif issubclass(kind, type):
            yield from (obj, obj.__mro__, obj.__name__, *vars(obj))


def _iter_code_parts(code: types.CodeType) -> Iterator[object]:
    yield from (code, code.co_names, *code.co_names, code.co_consts)
    for constant in code.co_consts:
        yield constant
        if isinstance(constant, types.CodeType):
            yield from _iter_code_parts(constant)


def _fill_holes() -> None:
    """Fills the holes between small objects, so that new ones lie side by side."""
    for size in range(_ALIGNMENT, _MAX_OBJECT_BYTES + 1, _ALIGNMENT):
        for index in range(8 * _POOL_BYTES // size):
            _fillers.append(_make_filler(size, index))
            if id(_fillers[-1]) % _POOL_BYTES == _POOL_HEADER_BYTES:
                break  # the first in a pool: there are no more holes


def _make_filler(size: int, index: int) -> object:
    """Returns a new object of a size."""
    if size > 2 * _ALIGNMENT:
        return bytes(size - _EMPTY_BYTES_SIZE)
    return object() if size == _ALIGNMENT else index + 0.5
