"""Loads a task's Python file as a module. Candidate processes import this module, so it imports little."""

import importlib.util
import os
import sys
from types import ModuleType


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
