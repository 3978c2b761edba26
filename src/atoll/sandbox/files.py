"""A task's own Python files, loaded where its candidates run."""

from pathlib import Path
from types import ModuleType
from typing import Any

from atoll.sandbox.loading import load
from atoll.sandbox.scoring import Scoring


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
