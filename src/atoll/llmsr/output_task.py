"""Task files with `score(output, case)`: candidates run in the sandbox, their outputs are scored outside it.

`inputs` then holds pairs `(arguments, case)`. Only the arguments enter the sandbox, so a candidate can read neither the
expected answers nor the scorer.
"""

import ast
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from atoll import errors
from atoll.llmsr.config import Task
from atoll.sandbox import module_loader

SCORE_NAME = "score"


class OutputTask(NamedTuple):
    """Loaded task file.

    Attributes:
        function: The initial function.
        score: Scores (output, case); higher is better.
        arguments: The arguments of each call.
        cases: The case of each call, for the scorer only.
        modules: The modules that the file imports, by name.
    """

    function: Callable[..., Any]
    score: Callable[[Any, Any], float]
    arguments: Sequence[Sequence[Any]]
    cases: Sequence[Any]
    modules: dict[str, ModuleType]


def is_output_task(text: str, task: Task) -> bool:
    """Returns whether a task file defines `score(output, case)` and no evaluator."""
    functions = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    scorer = functions.get(SCORE_NAME)
    return task.evaluator not in functions and scorer is not None and len(scorer.args.args) == 2


def load_output_task(path: Path, task: Task) -> OutputTask:
    """Runs a task file in this process and checks its inputs.

    Raises:
        SetupError: The file cannot be run, or its inputs are not pairs.
    """
    try:
        module = module_loader.load_module(str(path), "atoll_task")
        inputs: Any = getattr(module, task.inputs)
        pairs = list(inputs() if callable(inputs) else inputs)
    except Exception as error:  # the task's own code may raise anything
        raise errors.SetupError(f"{path} cannot be loaded: {type(error).__name__}: {error}.") from error
    for index, pair in enumerate(pairs):
        if not isinstance(pair, Sequence) or len(pair) != 2 or not isinstance(pair[0], Sequence | str):
            raise errors.SetupError(
                f"{path}: {task.inputs}[{index}] is {pair!r:.60}. With score(output, case), each input must be a pair"
                " (arguments, case), such as ((1.0, 2.0), 3.0)."
            )
    modules = {name: value for name, value in vars(module).items() if inspect.ismodule(value)}
    function: Callable[..., Any] = getattr(module, task.function)
    return OutputTask(function, getattr(module, SCORE_NAME), [a for a, _ in pairs], [c for _, c in pairs], modules)
