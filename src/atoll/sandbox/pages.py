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

_COUNT_OF_IMMORTALS = 2**32 - 1  # of references, in Python 3.12 and 3.13: it is never changed
# What nobody misses when it is not freed; an object with a file or a lock in it must still end with its last reference.
_LASTING = frozenset(
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
_POOL, _HEAD = 2**14, 48  # bytes that small objects of one size share, and those before the first of them
_LARGEST, _STEP = 512, 16
_EMPTY = sys.getsizeof(b"")

_plugs = list[object]()


def share() -> None:
    """Has later forks write to fewer of the pages that are there now; for good, so for a zygote only."""
    gc.collect()
    if sys.getrefcount(None) == _COUNT_OF_IMMORTALS:
        for each in _lasting():
            ctypes.c_uint32.from_address(id(each)).value = _COUNT_OF_IMMORTALS
    _plug()
    gc.freeze()  # else the first collection of every candidate would copy all pages


def _lasting() -> Iterator[object]:
    """Yields functions and classes, their parts and their names; data is left alone, however much there is."""
    for each in gc.get_objects():
        kind = type(each)
        if kind in _LASTING:
            yield each
        if kind is types.FunctionType:
            yield from (each.__name__, each.__qualname__)
            yield from _parts(each.__code__)
        elif kind is types.ModuleType:
            yield from vars(each)
        elif issubclass(kind, type):
            yield from (each, each.__mro__, each.__name__, *vars(each))


def _parts(code: types.CodeType) -> Iterator[object]:
    yield from (code, code.co_names, *code.co_names, code.co_consts)
    for each in code.co_consts:
        yield each
        if isinstance(each, types.CodeType):
            yield from _parts(each)


def _plug() -> None:
    """Fills the holes between small objects, so that new ones lie side by side."""
    for size in range(_STEP, _LARGEST + 1, _STEP):
        for number in range(8 * _POOL // size):
            _plugs.append(_made(size, number))
            if id(_plugs[-1]) % _POOL == _HEAD:
                break  # the first in a pool: there are no more holes


def _made(size: int, number: int) -> object:
    """Returns a new object of a size."""
    if size > 2 * _STEP:
        return bytes(size - _EMPTY)
    return object() if size == _STEP else number + 0.5
