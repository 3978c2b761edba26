"""How a job travels to another process: by value where a fresh process could not import it."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import cloudpickle

from atoll import errors

_INSTALLED = ("site-packages", "dist-packages")
_LIBRARY = os.path.dirname(os.__file__) + os.sep
_lock = threading.Lock()  # cloudpickle has one list of modules for the whole process


def pack(thing: object) -> bytes:
    """Returns what a worker needs, mostly the maker of its job, as a pickle, which the worker trusts.

    Raises:
        SetupError: Something that the job needs cannot be sent.
    """
    with _lock, _by_value():
        try:
            return bytes(cloudpickle.dumps(thing))
        except Exception as error:  # a foreign __reduce__ may raise anything
            raise errors.SetupError(
                f"The job cannot be sent to its workers: {error}. Keep locks, open files and connections out of the "
                "evaluator's globals and inputs: make them inside the function that makes the job."
            ) from error


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
