"""Candidate side of a link: loads the program and runs what the evaluator asks for, until its process is ended."""

import contextlib
import importlib.machinery
import importlib.util
import linecache
import os
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from atoll.sandbox import module_loader
from atoll.sandbox.apart import codec

MODULE_NAME = "program"
_FILE_NAME = "program.py"
_ATOLL = os.path.abspath(f"{__file__}/../../..") + os.sep  # a program may lie in a folder named after Atoll
_WARMUP_SOURCE = 'import sys\n\ndef f(x):\n    """Doc."""\n    return [x]\n'
_CALLS, _REPLIES = "calls", "replies"  # as in `stand_in`, which this process does not need
_LINK_VARIABLE = "ATOLL_LINK"
_MAX_TEXT = 5000
_FUNCTION_TYPES = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_SPECIAL = ("__call__", "__len__", "__getitem__", "__iter__", "__next__", "__enter__", "__exit__", "__str__")


class ProgramJob:
    """Runs a program for an evaluator in another sandbox. It never returns a value: the result is the evaluator's.

    Args:
        modules: Installed modules to import in advance, since they are slow to load.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        for name in modules:
            with contextlib.suppress(Exception):  # the program fails with the same error
                importlib.import_module(name)
        sys.dont_write_bytecode = True  # every program is loaded in a new folder

    def warm_up(self) -> None:
        """Loads and calls a program once, so that candidates copy fewer pages."""
        (read_fd, call_fd), (reply_fd, write_fd) = os.pipe(), os.pipe()
        server = _Server(_Program(_WARMUP_SOURCE).load, codec.Pipes(read_fd, write_fd, 2**20))
        evaluator = codec.Pipes(reply_fd, call_fd, 2**20)
        for operation in (["load"], ["call", 1, None, [1.5]]):
            evaluator.send(codec.pack(1, operation, server._export))
            server.answer_next()
            evaluator.receive()
        for fd in (read_fd, call_fd, reply_fd, write_fd):
            os.close(fd)
        del sys.modules[MODULE_NAME]
        os.unlink(_FILE_NAME)

    def __call__(self, source: str) -> NoReturn:
        module_loader.renew_numpy_random()
        serve(_Program(source).load)


class _Program:
    """Python file that is loaded as a module."""

    def __init__(self, source: str) -> None:
        self._source, self._path = source.encode(), os.path.abspath(_FILE_NAME)
        with open(self._path, "wb", buffering=0) as file:  # for tracebacks, and for programs that read themselves
            file.write(self._source)

    def load(self, server: "_Server") -> Any:
        server.path = self._path
        loader = importlib.machinery.SourceFileLoader(MODULE_NAME, self._path)
        spec = importlib.util.spec_from_file_location(MODULE_NAME, self._path, loader=loader)
        assert spec is not None
        module = sys.modules[MODULE_NAME] = importlib.util.module_from_spec(spec)
        exec(compile(self._source, self._path, "exec", dont_inherit=True), vars(module))
        members = {
            name: value if _is_callable(value) else None
            for name, value in vars(module).items()
            if codec.is_public_name(name)
        }
        return server.get_number(module), members


def serve(load: "Callable[[_Server], Any]") -> NoReturn:
    """Answers the evaluator until this process is ended. `load` returns what the evaluator needs for its first call."""
    folder, max_bytes, _ = os.environ.pop(_LINK_VARIABLE).split("|")
    server = _Server(load, codec.Pipes.open(folder, _CALLS, _REPLIES, int(max_bytes)))
    while True:
        server.answer_next()


class _Callback:
    """Function of the evaluator, called by the program."""

    def __init__(self, server: "_Server", number: int) -> None:
        self._server, self._number = server, number

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._server.call_back(self._number, args, options)


class _Server:
    def __init__(self, load: "Callable[[_Server], Any]", pipes: codec.Pipes) -> None:
        self._load, self._pipes = load, pipes
        self._objects = list[Any]()
        self._numbers = dict[int, int]()  # of an object, by its id; `_objects` keeps it alive
        self._call = 0
        self.path = ""  # of the program, if it is a file

    def answer_next(self) -> None:
        """Waits for an operation, runs it and sends its result."""
        self._answer(*self._pipes.receive())

    def call_back(self, number: int, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Calls a function of the evaluator; meanwhile the evaluator may call the program again."""
        call = self._call
        self._pipes.send(codec.pack(call, ["back", number, args, options], self._export))
        while True:
            received, text, blob = self._pipes.receive()
            if received != call:
                self._answer(received, text, blob)
                continue
            match codec.unpack(text, blob, self._import):
                case ["ok", value]:
                    return value
                case ["error", kind, message]:
                    raise RuntimeError(f"{kind}: {message}")

    def _answer(self, call: int, text: bytes, blob: bytes) -> None:
        outer, self._call = self._call, call
        try:
            message = codec.pack(call, ["ok", self._run(codec.unpack(text, blob, self._import))], self._export)
        except BaseException as error:  # also SystemExit: the evaluator gets it as it would in its own process
            message = codec.pack(call, self._describe_error(error), self._export)
        self._pipes.send(message)
        self._call = outer

    def _run(self, operation: Any) -> Any:
        match operation:
            case ["call", number, name, args, *rest]:
                target = self._objects[number] if name is None else getattr(self._objects[number], name)
                return target(*args, **rest[0]) if rest else target(*args)
            case ["seed", seeds, operation]:
                for name, seed in seeds:
                    _seed(name, seed)
                return self._run(operation)
            case ["get", number, name]:
                return getattr(self._objects[number], name)
            case ["set", number, name, value]:
                return setattr(self._objects[number], name, value)
            case ["item", number, name, *args]:
                return getattr(self._objects[number], name)(*args)
            case ["items", number]:
                return list(self._objects[number])
            case ["load"]:
                return self._load(self)
        raise ValueError(f"unknown operation {operation!r:.80}")

    def _describe_error(self, error: BaseException) -> list[Any]:
        kind = type(error)
        number = self._numbers.get(id(kind))
        try:
            message = str(error)
        except BaseException as str_error:
            message = f"(its __str__ raised {type(str_error).__name__})"
        tb, frames, trace = error.__traceback__, list[Any](), ""
        while tb and tb.tb_frame.f_code.co_filename.startswith(_ATOLL):
            tb = tb.tb_next
        with contextlib.suppress(BaseException):
            places = [(frame.f_code, line) for frame, line in traceback.walk_tb(tb)]
            own = [place for place in places if place[0].co_filename == self.path][-codec.MAX_FRAMES :]
            frames = [[line, code.co_name, linecache.getline(self.path, line).strip()] for code, line in own]
            text = "".join(traceback.format_exception_only(error)).strip()
            is_told = text in (kind.__name__, f"{kind.__name__}: {message}") and own[-1:] == places[-1:]
            if not is_told or error.__cause__ or error.__context__:
                trace = "".join(traceback.format_exception(kind, error, tb, limit=-10))[-_MAX_TEXT:]
        return ["error", kind.__name__, message[:_MAX_TEXT], trace, frames, number]

    def _export(self, value: Any) -> Any:
        """Replaces an object that stays here by its number and a description."""
        if isinstance(value, types.ModuleType):
            return {"m": value.__name__}
        number, kind = self.get_number(value), type(value)
        if isinstance(value, type):
            return {"h": [number, self._describe_class(value)]}
        if isinstance(value, _FUNCTION_TYPES) or kind.__name__ == "ufunc":
            doc = value.__doc__
            name = value.__name__ if codec.is_public_name(value.__name__) else "function"
            return {"h": [number, {"function": name, "doc": doc[:_MAX_TEXT] if isinstance(doc, str) else None}]}
        return {"h": [number, {"of": self.get_number(kind), **self._describe_class(kind)}]}

    def _describe_class(self, kind: type) -> dict[str, Any]:
        methods = [
            name
            for name in dir(kind)
            if (codec.is_public_name(name) or name in _SPECIAL) and callable(getattr(kind, name, None))
        ]
        if kind.__call__ is type.__call__ or "__call__" not in dir(kind):
            methods = [name for name in methods if name != "__call__"]
        name = kind.__name__ if codec.is_public_name(kind.__name__) else "Object"
        return {"class": name, "methods": methods, "is_error": issubclass(kind, BaseException)}

    def get_number(self, value: Any) -> int:
        """Returns the number of an object; it stays alive."""
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
        return number

    def _import(self, tag: str, content: Any) -> Any:
        match tag, content:
            case "h", int() as number:
                return self._objects[number]
            case "fn", int() as number:
                return _Callback(self, number)
        raise ValueError("tag")


def _is_callable(value: Any) -> bool:
    return isinstance(value, types.FunctionType | types.BuiltinFunctionType | type)


def _seed(name: str, seed: Any) -> None:
    module: Callable[[Any], None] | None = None
    if name == "random":
        import random

        module = random.seed
    elif "numpy" in sys.modules:
        module = sys.modules["numpy"].random.seed
    if module is not None:
        module(seed)
