"""The job of evaluators that score a function on one input at a time."""

import contextlib
import json
import linecache
import os
import pickle
import random
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, SupportsFloat, cast

from atoll import errors, function
from atoll.candidate import EMPTY, JSON
from atoll.sandbox import job_pickle, violations
from atoll.sandbox.module_loader import load_module

SOURCE_NAME = "<skeleton>"  # what the traceback of a PyAstSkeleton calls its source


class ScoreJob:
    """Scores the source of a Python function on every input.

    Given to a sandbox as the maker of its job, it is made in the worker:

        Workers(functools.partial(Scoring, evaluator, inputs, {"np": numpy}))

    Args:
        evaluator: Scores (skeleton, one input).
        inputs: What the evaluator is given, one at a time; each candidate gets copies of its own, where they can be
            pickled.
        names: What the source finds without importing it: modules, constants, helpers.

    Raises:
        SetupError: There are no inputs.
    """

    def __init__(
        self, evaluator: function.Evaluator[..., Any, Any], inputs: Sequence[Any], names: Mapping[str, Any] = EMPTY
    ) -> None:
        if not inputs:
            raise errors.SetupError("there are no evaluation inputs: give at least one")
        self._evaluator, self._names = evaluator, names
        self._copy_inputs = make_copier(list(inputs))
        seed_random()  # loads the dice, which would count as time of the first candidate

    def __call__(self, source: str) -> list[dict[str, JSON]]:
        """Returns for each input `{"score": number}`, or `{"failure": "ValueError: ..."}`.

        A score may also be other plain data that the evaluator returned, such as None: whoever reads it decides.
        """
        seed_random()
        linecache.cache[SOURCE_NAME] = (len(source), None, source.splitlines(keepends=True), SOURCE_NAME)
        skeleton = function.PyAstSkeleton(source, self._names)
        results: list[dict[str, JSON]] = []
        for index, input_value in enumerate(self._copy_inputs()):
            try:
                results.append({"score": _to_plain(self._evaluator(skeleton, input_value))})
            except BaseException as error:  # the boundary to the candidate: exit() is a failure of this input
                if not any("failure" in result for result in results):
                    print_failure(index, error)
                results.append({"failure": f"{violations.describe_error(error)}{_format_location(error)}"})
        return results


def make_copier(inputs: list[Any]) -> Callable[[], list[Any]]:
    """Returns what copies the inputs: a candidate that sorts one in place must not spoil it for those after it."""
    try:
        packed = job_pickle.pack_job(inputs)
        pickle.loads(packed)
    except Exception:  # an open connection, say, that was made here: it can only be shared
        return lambda: inputs
    return lambda: cast(list[Any], pickle.loads(packed))


def _to_plain(result: Any) -> JSON:
    """Returns a number as a float and other plain data as it is; raises for what is none."""
    if isinstance(result, SupportsFloat) and not isinstance(result, str):
        return float(result)
    json.dumps(result)
    return result  # type: ignore[no-any-return]  # it is JSON, or the line above raised


def seed_random() -> None:
    """Gives every candidate the same dice, else its score would depend on who was judged before it."""
    random.seed(0)
    with contextlib.suppress(KeyError, AttributeError):  # it is not loaded, or only half
        numpy: Any = sys.modules["numpy"]
        numpy.random.seed(0)
        numpy.seterr(divide="warn", over="warn", under="ignore", invalid="warn")


def _format_location(error: BaseException) -> str:
    """Says where it was raised: in a line of the function, or of the task's own file."""
    tb = error.__traceback__
    while tb and tb.tb_next:
        tb = tb.tb_next
    if tb is None:
        return ""
    file, line = tb.tb_frame.f_code.co_filename, tb.tb_lineno
    return f" (line {line} of the function)" if file == SOURCE_NAME else f" ({os.path.basename(file)}, line {line})"


def print_failure(index: int, error: BaseException) -> None:
    """Prints how the candidate came to the first failure, which tells the next proposal most."""
    tb = error.__traceback__
    while tb and tb.tb_frame.f_code.co_filename != SOURCE_NAME:
        tb = tb.tb_next
    with contextlib.suppress(BaseException):  # an exception or a stream that the candidate made
        sys.stderr.write(f"input {index}:\n")
        traceback.print_exception(type(error), error, tb or error.__traceback__, limit=-5)


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
