"""Loads a task's Python file as a module. Candidate processes import this module, so it imports little."""

import contextlib
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any


def load_module(path: str, name: str) -> ModuleType:
    """Runs a file as a module of this name; it can import modules from its folder.

    Raises:
        ImportError: The file is not a Python file.
    """
    folder = os.path.dirname(os.path.realpath(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def renew_numpy_random() -> None:
    """Gives this process random numbers of its own, unless the evaluator has set a seed.

    A fork has the generator of its parent: without this, all candidates would draw the same numbers, and a program
    that is good by luck would be so in every evaluation.
    """
    module: Any = sys.modules.get("numpy.random")
    with contextlib.suppress(AttributeError):  # not loaded, or not completely
        if module.get_bit_generator().seed_seq is not None:  # None after `seed(number)`
            seed = getattr(module.seed, "__wrapped__", module.seed)  # not the one that also seeds a program apart
            seed(int.from_bytes(os.urandom(4)))
