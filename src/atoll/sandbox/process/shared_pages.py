"""Reduces the memory pages that candidate processes must copy from the fork server.

A fork shares every page until one of the processes writes to it. Then the kernel copies the page, which costs three
microseconds. In a short evaluation most of these writes come from the interpreter. It changes the reference counts of
existing functions, classes and constants, and puts new objects into the holes between them. This module prevents both
kinds of writes before the first fork.
"""

import ctypes
import functools
import gc
import importlib.machinery
import re
import struct
import sys
import types
import weakref
from collections.abc import Iterable, Iterator

_IMMORTAL_REFCOUNT = 2**32 - 1  # Python 3.12 and 3.13 never change this count
# Types that need not be freed. Objects that own files or locks must be freed with their last reference.
_IMMORTAL_TYPES = frozenset(
    {
        types.FunctionType,
        types.BuiltinFunctionType,
        types.ModuleType,
        types.MethodDescriptorType,
        types.ClassMethodDescriptorType,
        types.WrapperDescriptorType,
        types.GetSetDescriptorType,
        types.MemberDescriptorType,
        types.CellType,
        property,
        classmethod,
        staticmethod,
        weakref.ref,
        struct.Struct,
        re.Pattern,
        importlib.machinery.ModuleSpec,
        importlib.machinery.SourceFileLoader,
        importlib.machinery.ExtensionFileLoader,
    }
)
_CONSTANT_TYPES = frozenset({str, bytes, int, float, complex, range, types.CodeType})
_POOL_BYTES, _POOL_HEADER_BYTES = 2**14, 48  # CPython allocates small objects of one size in such pools
_MAX_OBJECT_BYTES, _ALIGNMENT = 512, 16
_MAX_POOLS = 16  # per object size
_ADJACENT_IN_NEW_POOL = 8
_FUNCTION_OF_C = type(ctypes.CDLL(None).getpid)
_MAX_DEPTH = 50  # of constant tuples
_EMPTY_BYTES_SIZE = sys.getsizeof(b"")

_fillers = list[object]()  # objects in the holes, kept as long as the process lives


def prepare_for_fork(*owners: object) -> None:
    """Makes forks write to fewer existing pages. It is irreversible, so only a fork server calls it.

    Args:
        owners: Objects of Atoll that every fork uses. It also covers the objects of Atoll in their attributes.
    """
    gc.collect()
    if sys.getrefcount(None) == _IMMORTAL_REFCOUNT:
        for obj in [*_iter_immortals(), *_iter_owned(owners)]:
            ctypes.c_uint32.from_address(id(obj)).value = _IMMORTAL_REFCOUNT
    _fill_holes()
    gc.freeze()  # otherwise the first collection of every candidate copies all pages


def _iter_immortals() -> Iterator[object]:
    """Yields functions, classes, their parts and names, and constants, but no other data."""
    known_tuples = dict[int, bool]()
    for obj in gc.get_objects():
        kind = type(obj)
        if kind in _IMMORTAL_TYPES or issubclass(kind, type):
            yield obj
        for part in gc.get_referents(obj):
            is_namespace = type(part) is dict and (kind is types.ModuleType or issubclass(kind, type))
            if is_namespace or _is_constant(part, known_tuples):
                yield part
        if kind is types.FunctionType:
            yield from _iter_code_parts(obj.__code__)


def _is_constant(value: object, known_tuples: dict[int, bool], depth: int = 0) -> bool:
    """Returns whether a value never changes: a text, a number, or a tuple that is never freed.

    It asks for types only: `isinstance` would run code of proxies.
    """
    if type(value) is not tuple:
        return type(value) in _CONSTANT_TYPES
    if id(value) not in known_tuples:
        known_tuples[id(value)] = False
        known_tuples[id(value)] = depth < _MAX_DEPTH and all(
            type(item) in _IMMORTAL_TYPES
            or issubclass(type(item), type | None)
            or _is_constant(item, known_tuples, depth + 1)
            for item in value
        )
    return known_tuples[id(value)]


def _iter_owned(owners: Iterable[object]) -> Iterator[object]:
    """Yields objects of Atoll and the containers and constants in their attributes, but no data of a job."""
    known_ids, pending = set[int](), list(owners)
    while pending:
        obj = pending.pop()
        kind = type(obj)
        if id(obj) in known_ids or issubclass(kind, type | types.FunctionType | types.ModuleType):
            continue
        known_ids.add(id(obj))
        if str(kind.__module__).startswith("atoll.") or kind in (functools.partial, types.MethodType):
            yield obj
            for part in gc.get_referents(obj):
                yield from (part,) if type(part) in (dict, list, tuple) else ()
                pending += gc.get_referents(part) if type(part) in (dict, list, tuple) else [part]
        elif kind in _CONSTANT_TYPES or issubclass(kind, ctypes._SimpleCData | _FUNCTION_OF_C):
            yield obj


def _iter_code_parts(code: types.CodeType) -> Iterator[object]:
    yield from (code, code.co_names, *code.co_names, code.co_consts)
    for constant in code.co_consts:
        yield constant
        if isinstance(constant, types.CodeType):
            yield from _iter_code_parts(constant)


def _fill_holes() -> None:
    """Fills the holes between small objects, so that later objects are placed together on few new pages."""
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
