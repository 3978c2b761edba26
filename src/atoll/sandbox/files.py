"""A task's own Python files, loaded where its candidates run."""

from pathlib import Path
from types import ModuleType
from typing import Any

from atoll.sandbox.loading import load_module
from atoll.sandbox.scoring import ScoreJob


def load_score_job(path: str, evaluator: str, inputs: str) -> ScoreJob:
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
    module = load_module(path, "atoll_task")
    input_values: Any = _get_attribute(module, inputs, "task.inputs")
    input_values = list(input_values() if callable(input_values) else input_values)
    if not input_values:
        raise ValueError(f"{Path(path).name}: {inputs} is empty; give at least one input")
    return ScoreJob(_get_attribute(module, evaluator, "task.evaluator"), input_values, dict(vars(module)))


def _get_attribute(module: ModuleType, name: str, key: str) -> Any:
    if not hasattr(module, name):
        raise AttributeError(
            f"{Path(str(module.__file__)).name} has no {name}; write one, or set {key} to another name"
        )
    return getattr(module, name)
