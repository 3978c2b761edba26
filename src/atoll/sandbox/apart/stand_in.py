"""Evaluator side of a link: a module that stands in for a program in another sandbox.

The file that an evaluator loads as the program calls `load`. Functions, classes and constants of the real program then
appear in the module, and each use of them is forwarded. Results are plain data. An object that is not plain data stays
with the program; its stand-in forwards calls and reads attributes. It has no arithmetic and no comparisons. Until the
next call an attribute keeps its value, and length, items and indices come from one reading. So a program cannot return
an object that pretends to be a number, a list or an array.

Processes that an evaluator starts load this file by its path, so it uses only the standard library and `codec`.
"""

import _thread
import builtins
import collections.abc
import fcntl
import functools
import importlib.util
import os
import select
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

if "atoll.sandbox.apart.codec" in sys.modules:
    codec = sys.modules["atoll.sandbox.apart.codec"]
else:  # in a process that an evaluator started
    _spec = importlib.util.spec_from_file_location(
        "atoll.sandbox.apart.codec", os.path.join(os.path.dirname(__file__), "codec.py")
    )
    assert _spec is not None
    assert _spec.loader is not None
    codec = sys.modules["atoll.sandbox.apart.codec"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(codec)

LINK_VARIABLE = "ATOLL_LINK"  # environment variable: folder of the pipes, bytes per message, seconds per call
CALLS, REPLIES = "calls", "replies"  # names of the pipes
_FORWARDED = ("__call__", "__len__", "__getitem__", "__iter__", "__next__", "__enter__", "__exit__", "__str__")
_MAX_TEXT = 5000
_PRETENDED = frozenset({"shape", "ndim", "dtype"})  # attributes of arrays that no other object has
# What arrays compute from their items. A container of a program may compute anything, so its items must be read.
_REDUCTIONS = frozenset({"min", "max", "sum", "prod", "mean", "std", "var", "any", "all", "tolist", "astype", "item"})
_MAPPING_VIEWS = ("keys", "values", "items", "get")
_LIBRARIES = (os.path.dirname(os.__file__) + os.sep, "/site-packages/", "/dist-packages/")
SOURCE = f"""import importlib.util, sys
if "atoll.sandbox.apart.stand_in" not in sys.modules:
    spec = importlib.util.spec_from_file_location("atoll.sandbox.apart.stand_in", {os.path.abspath(__file__)!r})
    sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[spec.name])
sys.modules["atoll.sandbox.apart.stand_in"].load(globals())
"""

obstacles = list[str]()  # what this evaluator needs and a stand-in cannot give, in words


class LinkError(RuntimeError):
    """The evaluator needs something that a program in another sandbox cannot give, or the program broke the format."""


class _Link:
    """Connection of this process to the program. Calls of several threads and processes take turns."""

    def __init__(self, pipes: Any = None) -> None:
        folder, max_bytes, seconds = os.environ[LINK_VARIABLE].split("|")
        self._pid, self._folder, self._max_bytes = os.getpid(), folder, int(max_bytes)
        self._seconds = float(seconds) if seconds else None
        self._pipes = pipes or self._open()
        self._lock, self._number = _thread.RLock(), int.from_bytes(os.urandom(7))
        self._callbacks = dict[int, Callable[..., Any]]()
        self._classes, self._objects = dict[int, type](), dict[int, Any]()
        self._seeds = list[tuple[str, Any]]()
        self.version = 0  # changes with every call, which may change the state of the program
        self.path = ""  # of the file that the evaluator loaded

    def note_seed(self, name: str, seed: Any) -> None:
        """Seeds the program's generator before its next call, as if it shared this process."""
        self._seeds = [item for item in self._seeds if item[0] != name] + [(name, seed)]

    def request(self, *operation: Any) -> Any:
        """Sends an operation and returns the program's result, or raises its exception."""
        with self._lock:
            if os.getpid() != self._pid:  # a fork needs its own descriptors: locks belong to them
                self._pid, self._pipes = os.getpid(), self._open()
            fcntl.flock(self._pipes.write_fd, fcntl.LOCK_EX)
            try:
                return self._exchange(list(operation))
            finally:
                fcntl.flock(self._pipes.write_fd, fcntl.LOCK_UN)

    def _open(self) -> Any:
        return codec.Pipes.open(self._folder, REPLIES, CALLS, self._max_bytes)

    def _exchange(self, operation: list[Any]) -> Any:
        self._number += 1
        number = self._number
        if self._seeds:
            operation, self._seeds = ["seed", self._seeds, operation], []
        self._pipes.send(codec.pack(number, operation, self._export))
        while True:
            if self._seconds is not None:
                self._wait(self._seconds)
            received, text, blob = self._receive()
            if received != number:
                continue  # reply to a call that a killed process left
            reply = self._read_reply(text, blob)
            if type(reply) is list and len(reply) == 2 and reply[0] == "ok":
                return reply[1]
            match reply:
                case ["error", str(kind), str(message), str(trace), list(frames), int() | None as class_number]:
                    raise self._make_error(kind, message, trace, frames, class_number)
                case ["back", int() as callback, tuple() as args, dict() as options] if callback in self._callbacks:
                    self._pipes.send(codec.pack(number, self._run_callback(callback, args, options), self._export))
                case _:
                    raise LinkError("the program sent a malformed reply")

    def _receive(self) -> tuple[int, bytes, bytes]:
        try:
            received: tuple[int, bytes, bytes] = self._pipes.receive()
        except codec.MalformedError as error:
            raise LinkError(f"the program sent {error}") from None
        return received

    def _read_reply(self, text: bytes, blob: bytes) -> Any:
        try:
            return codec.unpack(text, blob, self._import)
        except codec.MalformedError as error:
            raise LinkError(f"the program sent a {error}") from None

    def _wait(self, seconds: float) -> None:
        if not self._pipes.has_rest() and not select.select([self._pipes.read_fd], [], [], seconds)[0]:
            raise TimeoutError(f"a call of the program took longer than {seconds:g} s")

    def _run_callback(self, number: int, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        try:
            return ["ok", self._callbacks[number](*args, **options)]
        except Exception as error:
            return ["error", type(error).__name__, str(error)[:_MAX_TEXT]]

    def _export(self, value: Any) -> Any:
        if isinstance(value, StandIn):
            return {"h": value._number}
        number = getattr(value, "_stand_in_number", None)
        if isinstance(number, int):
            return {"h": number}
        if isinstance(value, types.FunctionType | types.MethodType | types.BuiltinFunctionType | functools.partial):
            self._callbacks[id(value)] = value
            return {"fn": id(value)}
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        _note(f"it passes an object of class {kind} to the program")
        raise LinkError(f"an object of class {kind} cannot be passed to a program in another sandbox")

    def _import(self, tag: str, content: Any) -> Any:
        """Reads a tag of an object that stays with the program."""
        match tag, content:
            case "h", [int() as number, dict() as description]:
                return self.make(number, description)
            case "m", str() as name if name in sys.modules and _is_library(sys.modules[name]):
                return sys.modules[name]
        raise ValueError("tag")

    def make(self, number: int, description: Mapping[str, Any]) -> Any:
        """Returns the stand-in of an object; the same one each time."""
        if number not in self._objects:
            match description:
                case {"of": int() as class_number, **rest}:
                    kind = self.make(class_number, rest)
                    if not (isinstance(kind, type) and issubclass(kind, StandIn)):
                        raise ValueError("class")
                    stand_in = object.__new__(kind)
                    object.__setattr__(stand_in, "_number", number)
                    object.__setattr__(stand_in, "_known_values", {})
                    self._objects[number] = stand_in
                case {"function": str() as name, "doc": str() | None as doc}:
                    self._objects[number] = self._make_function(number, codec.require_name(name), doc)
                case {"class": str() as name, "methods": list() as methods, "is_error": bool() as is_error}:
                    self._objects[number] = self._make_class(number, codec.require_name(name), methods, is_error)
                case _:
                    raise ValueError("description")
        return self._objects[number]

    def _make_function(self, number: int, name: str, doc: str | None) -> Callable[..., Any]:
        def forward(*args: Any, **options: Any) -> Any:
            return self.call(number, None, args, options)

        forward.__name__ = forward.__qualname__ = name
        forward.__doc__ = doc
        forward.__module__ = "program"
        forward._stand_in_number = number  # type: ignore[attr-defined]
        return forward

    def _make_class(self, number: int, name: str, methods: list[Any], is_error: bool) -> type:
        if is_error:
            return type(name, (Exception,), {"_stand_in_number": number})
        members: dict[str, Any] = {"_class_number": number, "_link": self}
        is_container = "__iter__" in methods or "__getitem__" in methods
        for method in methods:
            if is_container and method in _REDUCTIONS:
                continue
            if method in _FORWARDED or (codec.is_public_name(method) and not method.startswith("_")):
                members[method] = _make_method(method)
        if "__getitem__" in members and not members.keys().isdisjoint(_MAPPING_VIEWS[:3]):
            members |= {name: vars(collections.abc.Mapping)[name] for name in _MAPPING_VIEWS}
            members["_is_mapping"] = True
        return _StandInClass(name, (StandIn,), members)

    def call(self, number: int, name: str | None, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        self.version += 1
        # Lists cost less than tuples, which have a tag.
        try:
            return self.request("call", number, name, [*args], *([options] if options else ()))
        except StopIteration as error:  # it would end a loop of the evaluator, such as `map`, as if there were no more
            if name == "__next__":
                raise
            raise RuntimeError("the program raised StopIteration") from error

    def _make_error(
        self, kind: str, message: str, trace: str, frames: list[Any], class_number: int | None
    ) -> BaseException:
        error_type = self._objects.get(class_number) if class_number is not None else getattr(builtins, kind, None)
        if not (isinstance(error_type, type) and issubclass(error_type, BaseException)):
            error_type = type(kind if codec.is_public_name(kind) else "ProgramError", (Exception,), {})
        error: BaseException
        try:
            error = error_type(message)
        except Exception:  # e.g. UnicodeDecodeError, which needs more arguments
            error = RuntimeError(f"{kind}: {message}")
        if trace:
            error.add_note(f"In the program:\n{trace[-_MAX_TEXT:]}")
        return error.with_traceback(codec.make_traceback(frames, self.path))


class _StandInClass(type):
    """Class of the program. Its attributes are read from the program."""

    _link: _Link
    _class_number: int

    def __getattr__(cls, name: str) -> Any:
        return cls._link.request("get", cls._class_number, _check_attribute(name))

    def __call__(cls, *args: Any, **options: Any) -> Any:
        return cls._link.call(cls._class_number, None, args, options)


class StandIn(metaclass=_StandInClass):
    """Object of the program that is not plain data."""

    _number: int
    _known_values: dict[Any, tuple[int, Any]]
    _is_mapping = False

    def __getattr__(self, name: str) -> Any:
        if name in _REDUCTIONS and (hasattr(type(self), "__iter__") or hasattr(type(self), "__getitem__")):
            raise AttributeError(name)
        return _read_once(self, ("get", _check_attribute(name)))

    def __setattr__(self, name: str, value: Any) -> None:
        self._link.version += 1
        self._link.request("set", self._number, name, value)


def _read_once(stand_in: StandIn, operation: tuple[Any, ...]) -> Any:
    """Reads from an object. Until the next call of the program, the same read returns the same value."""
    link = stand_in._link
    known = stand_in._known_values.get(operation)
    if known is None or known[0] != link.version:
        known = (link.version, link.request(operation[0], stand_in._number, *operation[1:]))
        stand_in._known_values[operation] = known
    return known[1]


def _make_method(name: str) -> Callable[..., Any]:
    def forward(self: StandIn, *args: Any, **options: Any) -> Any:
        if name in ("__len__", "__getitem__", "__iter__") and hasattr(type(self), "__iter__"):
            return _read_items(self, name, *args)
        if name in ("__len__", "__str__") or (name == "__getitem__" and isinstance(args[0], int | str)):
            return _read_once(self, ("item", name, *args))
        return self._link.call(self._number, name, args, options)

    forward.__name__ = name
    return forward


def _read_items(stand_in: StandIn, name: str, *args: Any) -> Any:
    """Returns iterator, length or an item. All agree, since they come from one list."""
    if hasattr(type(stand_in), "__next__"):
        if name == "__iter__":
            return stand_in
        raise TypeError("an iterator of the program has no length and no items")
    items = _read_once(stand_in, ("items",))
    if not isinstance(items, list):
        raise LinkError("the program sent malformed items")
    if name != "__getitem__":
        return iter(items) if name == "__iter__" else len(items)
    if not stand_in._is_mapping:
        return items[args[0]]
    if args[0] not in items:
        raise KeyError(args[0])
    return _read_once(stand_in, ("item", name, *args))


def _is_library(module: types.ModuleType) -> bool:
    """Returns whether a module belongs to Python or is installed, unlike the evaluator and its files."""
    file = getattr(module, "__file__", None)
    if file is None:
        return module.__name__ in sys.builtin_module_names
    return not module.__name__.startswith("atoll") and any(folder in file for folder in _LIBRARIES)


def _check_attribute(name: str) -> str:
    if not codec.is_public_name(name) or name in _PRETENDED:
        raise AttributeError(name)
    return name


def _note(obstacle: str) -> None:
    if obstacle not in obstacles:
        obstacles.append(obstacle)


_link: _Link | None = None


class RemoteFunction:
    """Function in another sandbox, for evaluators that take the function itself (`program_server.FunctionServerJob`).

    Args:
        source: Its source, which the evaluator can read by `str`.
    """

    __slots__ = ("_number", "_source")

    def __init__(self, source: str) -> None:
        self._source = source
        self._number: Any = None

    def __call__(self, *args: Any, **options: Any) -> Any:
        global _link
        _link = _link or _Link()
        if self._number is None:
            self._number = _link.request("load")
        return _link.call(self._number, None, args, options)

    def __str__(self) -> str:
        return self._source


def load(names: dict[str, Any]) -> None:
    """Loads the program in its sandbox and fills the namespace of a module with stand-ins.

    Raises:
        LinkError: The evaluator runs the program as a process.
    """
    global _link
    if names.get("__name__") == "__main__":
        raise LinkError("a program in another sandbox cannot be run as a process; use --scoring together")
    _link = link = _link or _Link()
    filename = sys._getframe(1).f_code.co_filename  # `__file__` may be another file
    link.version, link.path = link.version + 1, "program.py" if filename.startswith("<") else filename
    number, members = link.request("load")
    cache: dict[str, tuple[int, Any]] = {}

    def get_attribute(name: str) -> Any:
        if name not in members:
            raise AttributeError(f"module {names.get('__name__')!r} has no attribute {name!r}")
        if name not in cache or cache[name][0] != link.version:
            cache[name] = (link.version, link.request("get", number, name))
        return cache[name][1]

    if not isinstance(members, dict):
        raise LinkError("the program sent a malformed reply")
    members = {name: value for name, value in members.items() if codec.is_public_name(name)}
    names |= {name: value for name, value in members.items() if value is not None}
    names["__getattr__"] = get_attribute


def note_seed(name: str, seed: Any) -> None:
    """Seeds the program's generator before its next call."""
    global _link
    _link = _link or _Link()
    _link.note_seed(name, seed)


def warm_up(path: str) -> None:
    """Loads the stand-in in a file and calls a function, with prepared replies instead of a program."""
    global _link
    (reply_fd, program_fd), call_fds = os.pipe(), os.pipe()
    _link = link = _Link(codec.Pipes(reply_fd, call_fds[1], 2**20))
    description = {"h": [1, {"function": "f", "doc": None}]}
    for index, reply in enumerate((["ok", (0, {"f": _make_method, "x": None})], ["ok", 1.5]), 1):
        os.write(program_fd, codec.pack(link._number + index, reply, lambda _: description))
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.f(1.5)
    for fd in (reply_fd, program_fd, *call_fds):
        os.close(fd)
    _link = None
