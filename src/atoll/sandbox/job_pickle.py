"""Pickles jobs for other processes. Modules that a new process cannot import are sent by value."""

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
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep
_lock = threading.Lock()  # cloudpickle has one list of modules for the whole process


# Returns a reference to a path that differs on another machine; None: the path is the same.
type TranslatePath = Callable[[str], Any]


def pack_job(value: object, translate: TranslatePath | None = None) -> bytes:
    """Pickles an object for a worker, mostly its job maker.

    Args:
        value: Object to pickle.
        translate: Translates paths for another machine; None: this machine.

    Raises:
        SetupError: The object cannot be pickled.
    """
    with _lock, _register_by_value():
        try:
            return bytes(cloudpickle.dumps(value)) if translate is None else _JobPickler.dump_to_bytes(value, translate)
        except Exception as error:  # __reduce__ of any class may raise anything
            raise errors.SetupError(
                f"The evaluator cannot be pickled for its workers: {error}. Do not keep locks, open files or "
                "connections in its globals and inputs; create them in the function that creates the job."
            ) from error


def unpack_job(data: bytes, resolve_path: Callable[[Any], str]) -> Any:
    """Unpickles a job on another machine; `resolve_path` returns the path of a reference."""
    return _JobUnpickler(io.BytesIO(data), resolve_path).load()


class _JobPickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, buffer: io.BytesIO, translate: TranslatePath) -> None:
        super().__init__(buffer)
        self._translate = translate

    @classmethod
    def dump_to_bytes(cls, value: object, translate: TranslatePath) -> bytes:
        buffer = io.BytesIO()
        cls(buffer, translate).dump(value)
        return buffer.getvalue()

    def persistent_id(self, value: object) -> Any:
        translated = self._translate(str(value)) if isinstance(value, str | PurePath) else None
        return None if translated is None else (isinstance(value, str), translated)


class _JobUnpickler(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, resolve_path: Callable[[Any], str]) -> None:
        super().__init__(buffer)
        self._resolve_path = resolve_path

    def persistent_load(self, reference: Any) -> Any:
        is_text, translated = reference
        return self._resolve_path(translated) if is_text else Path(self._resolve_path(translated))


@contextmanager
def _register_by_value() -> Iterator[None]:
    """Makes cloudpickle send modules by value, temporarily, if a new process cannot import them."""
    registered = cloudpickle.list_registry_pickle_by_value()
    loaded: dict[str, object] = dict(sys.modules)
    modules = [module for name, module in loaded.items() if isinstance(module, ModuleType) and module.__name__ == name]
    roots = {path for path in sys.path if contains_packages(path)}
    local_modules = [
        module for module in modules if module.__name__ not in registered and not _is_importable(module, roots)
    ]
    for module in local_modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in local_modules:
            cloudpickle.unregister_pickle_by_value(module)


def _is_importable(module: ModuleType, roots: set[str]) -> bool:
    """Returns whether every process can import this module by name: it is installed, or not written in Python."""
    name, file = module.__name__, vars(module).get("__file__")
    if name.partition(".")[0] in ("atoll", "cloudpickle") or not isinstance(file, str) or not file.endswith(".py"):
        return True
    if (
        file.startswith(_STANDARD_LIBRARY)
        and file.removeprefix(_STANDARD_LIBRARY).partition(os.sep)[0] not in _INSTALLED
    ):
        return True
    location, suffix = os.path.splitext(file)[0].removesuffix(f"{os.sep}__init__"), os.sep + name.replace(".", os.sep)
    return location.endswith(suffix) and location.removesuffix(suffix) in roots


def contains_packages(path: str) -> bool:
    """Returns whether packages are installed in a folder, as site-packages or by `pip install --target`."""
    try:
        return os.path.basename(path) in _INSTALLED or any(name.endswith(".dist-info") for name in os.listdir(path))
    except OSError:
        return False
