"""A task's own Python file as a module; imported by the processes of candidates, so it needs little."""

import importlib.util
import os
import sys
from types import ModuleType


def load_module(path: str, name: str) -> ModuleType:
    """Runs a file as a module of this name; modules beside it can be imported.

    Raises:
        ImportError: It is no Python file.
    """
    folder = os.path.dirname(os.path.realpath(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
