"""How a job travels to another process: by value where a fresh process could not import it."""

import io
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

import cloudpickle

from atoll import errors

_INSTALLED = ("site-packages", "dist-packages")
_LIBRARY = os.path.dirname(os.__file__) + os.sep
_lock = threading.Lock()  # cloudpickle has one list of modules for the whole process


# Turns a path that lies somewhere else on another machine into what stands for it there; None: it stays as it is.
type Translate = Callable[[str], Any]


def pack(thing: object, translate: Translate | None = None) -> bytes:
    """Returns what a worker needs, mostly the maker of its job, as a pickle, which the worker trusts.

    Args:
        thing: What is sent.
        translate: For another machine: what stands for a path there; None for paths that are the same.

    Raises:
        SetupError: Something that the job needs cannot be sent.
    """
    with _lock, _by_value():
        try:
            return bytes(cloudpickle.dumps(thing)) if translate is None else _Packer.pack(thing, translate)
        except Exception as error:  # a foreign __reduce__ may raise anything
            raise errors.SetupError(
                f"The job cannot be sent to its workers: {error}. Keep locks, open files and connections out of the "
                "evaluator's globals and inputs: make them inside the function that makes the job."
            ) from error


def unpack(body: bytes, path: Callable[[Any], str]) -> Any:
    """Returns what was packed for another machine, there; `path` finds what stands for one."""
    return _Opener(io.BytesIO(body), path).load()


class _Packer(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, body: io.BytesIO, translate: Translate) -> None:
        super().__init__(body)
        self._translate = translate

    @classmethod
    def pack(cls, thing: object, translate: Translate) -> bytes:
        body = io.BytesIO()
        cls(body, translate).dump(thing)
        return body.getvalue()

    def persistent_id(self, thing: object) -> Any:
        found = self._translate(str(thing)) if isinstance(thing, str | PurePath) else None
        return None if found is None else (isinstance(thing, str), found)


class _Opener(pickle.Unpickler):
    def __init__(self, body: io.BytesIO, path: Callable[[Any], str]) -> None:
        super().__init__(body)
        self._path = path

    def persistent_load(self, found: Any) -> Any:
        is_text, place = found
        return self._path(place) if is_text else Path(self._path(place))


@contextmanager
def _by_value() -> Iterator[None]:
    """Has cloudpickle send by value, for a moment, all modules that a fresh process cannot import."""
    known = cloudpickle.list_registry_pickle_by_value()
    listed: dict[str, object] = dict(sys.modules)
    modules = [each for name, each in listed.items() if isinstance(each, ModuleType) and each.__name__ == name]
    roots = {path for path in sys.path if holds_packages(path)}
    ours = [each for each in modules if each.__name__ not in known and not _is_importable(each, roots)]
    for module in ours:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in ours:
            cloudpickle.unregister_pickle_by_value(module)


def _is_importable(module: ModuleType, roots: set[str]) -> bool:
    """Says whether every process finds this very module by its name: it is installed, or no Python at all."""
    name, file = module.__name__, vars(module).get("__file__")
    if name.partition(".")[0] in ("atoll", "cloudpickle") or not isinstance(file, str) or not file.endswith(".py"):
        return True
    if file.startswith(_LIBRARY) and file.removeprefix(_LIBRARY).partition(os.sep)[0] not in _INSTALLED:
        return True
    place, end = os.path.splitext(file)[0].removesuffix(f"{os.sep}__init__"), os.sep + name.replace(".", os.sep)
    return place.endswith(end) and place.removesuffix(end) in roots


def holds_packages(path: str) -> bool:
    """Says whether packages are installed in a folder, as site-packages or by `pip install --target`."""
    try:
        return os.path.basename(path) in _INSTALLED or any(name.endswith(".dist-info") for name in os.listdir(path))
    except OSError:
        return False
