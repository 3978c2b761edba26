"""Reduces the memory pages that candidate processes must copy from the fork server.

A fork shares every page until one process writes to it; a copy costs three microseconds. In a short evaluation most
writes come from the interpreter: it counts references to existing functions and classes, and fills the holes between
them. Both can be avoided before the first fork.
"""

import ctypes
import gc
import sys
import types
from collections.abc import Iterator

_IMMORTAL_REFCOUNT = 2**32 - 1  # Python 3.12 and 3.13 never change this count
# Types that need not be freed. Objects that own files or locks must be freed with their last reference.
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
_POOL_BYTES, _POOL_HEADER_BYTES = 2**14, 48  # CPython allocates small objects of one size in such pools
_MAX_OBJECT_BYTES, _ALIGNMENT = 512, 16
_MAX_POOLS = 16  # per object size
_ADJACENT_IN_NEW_POOL = 8
_EMPTY_BYTES_SIZE = sys.getsizeof(b"")

_fillers = list[object]()


def prepare_for_fork() -> None:
    """Makes forks write to fewer existing pages; irreversible, so only for a fork server."""
    gc.collect()
    if sys.getrefcount(None) == _IMMORTAL_REFCOUNT:
        for obj in _iter_immortals():
            ctypes.c_uint32.from_address(id(obj)).value = _IMMORTAL_REFCOUNT
    _fill_holes()
    gc.freeze()  # otherwise the first collection of every candidate copies all pages


def _iter_immortals() -> Iterator[object]:
    """Yields functions and classes with their parts and names, but no data."""
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
    """Fills the holes between small objects, so that new objects share pages."""
    for size in range(_ALIGNMENT, _MAX_OBJECT_BYTES + 1, _ALIGNMENT):
        adjacent, previous = 0, 0
        for index in range(_MAX_POOLS * _POOL_BYTES // size):
            _fillers.append(_make_filler(size, index))
            address = id(_fillers[-1])
            if address % _POOL_BYTES == _POOL_HEADER_BYTES:
                adjacent = 1  # first place of a pool: a new pool, or a hole in an old one
            elif adjacent and address == previous + size:
                adjacent += 1
            else:
                adjacent = 0
            if adjacent == _ADJACENT_IN_NEW_POOL:
                break  # holes are rarely adjacent from the first place on: this pool is new
            previous = address


def _make_filler(size: int, index: int) -> object:
    if size > 2 * _ALIGNMENT:
        return bytes(size - _EMPTY_BYTES_SIZE)
    return object() if size == _ALIGNMENT else index + 0.5
