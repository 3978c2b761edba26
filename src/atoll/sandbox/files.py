"""A task's own Python files, loaded where its candidates run."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from atoll.sandbox.scoring import Scoring


def load(path: str, name: str) -> ModuleType:
    """Runs a file as a module of this name; modules beside it can be imported.

    Raises:
        ImportError: It is no Python file.
    """
    folder = str(Path(path).resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def score_file(path: str, evaluator: str, inputs: str) -> Scoring:
    """Makes the job that scores functions by a file's own evaluator and inputs.

    A new function finds what the file's functions find: its imports, constants and helpers.

    Args:
        path: The file.
        evaluator: Name of its function of (function, one input).
        inputs: Name of its list of inputs, or of a function without arguments that returns one.

    Raises:
        AttributeError: The file has no such name.
        ValueError: There are no inputs.
    """
    module = load(path, "atoll_task")
    given: Any = _of(module, inputs, "task.inputs")
    given = list(given() if callable(given) else given)
    if not given:
        raise ValueError(f"{Path(path).name}: {inputs} is empty; give at least one input")
    return Scoring(_of(module, evaluator, "task.evaluator"), given, dict(vars(module)))


def _of(module: ModuleType, name: str, key: str) -> Any:
    if not hasattr(module, name):
        raise AttributeError(
            f"{Path(str(module.__file__)).name} has no {name}; write one, or set {key} to another name"
        )
    return getattr(module, name)
