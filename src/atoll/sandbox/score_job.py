"""Job that scores a function on each input inside the sandbox."""

import contextlib
import json
import linecache
import os
import pickle
import random
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, SupportsFloat, cast

from atoll import errors, function
from atoll.candidate import EMPTY, JSON
from atoll.sandbox import job_pickle, violations
from atoll.sandbox.apart import program_server
from atoll.sandbox.module_loader import load_module

SOURCE_NAME = "<skeleton>"  # file name in tracebacks of a PyAstSkeleton
_REMOTE_LINE = re.compile(rf'File "{SOURCE_NAME}", line (\d+)')


class ScoreJob:
    """Scores a Python function on every input.

    A sandbox creates it in the worker:

        ProcessSandbox(functools.partial(ScoreJob, evaluator, inputs, {"np": numpy}))

    Args:
        evaluator: Function of (skeleton, one input) that returns a score.
        inputs: Inputs of the evaluator; each candidate gets its own copies if they can be pickled.
        names: Global names of the function: modules, constants, helpers.
        decode: Converts the source to the function; None: it is compiled here.

    Raises:
        SetupError: `inputs` is empty.
    """

    def __init__(
        self,
        evaluator: function.Evaluator[..., Any, Any],
        inputs: Sequence[Any],
        names: Mapping[str, Any] = EMPTY,
        decode: Callable[[str], Any] | None = None,
    ) -> None:
        if not inputs:
            raise errors.SetupError("The evaluation has no inputs. Pass at least one.")
        self._evaluator, self._decode = evaluator, decode or partial(function.PyAstSkeleton, names=names)
        self._copy_inputs = make_copier(list(inputs))
        seed_random()  # loads the modules, whose time would count for the first candidate

    def __call__(self, source: str) -> list[dict[str, JSON]]:
        """Returns for each input `{"score": number}`, or `{"failure": "ValueError: ..."}`.

        The score may be other plain data that the evaluator returned, such as None.
        """
        seed_random()
        show_source(source)
        skeleton = self._decode(source)
        results: list[dict[str, JSON]] = []
        for index, input_value in enumerate(self._copy_inputs()):
            try:
                results.append({"score": _to_plain(self._evaluator(skeleton, input_value))})
            except BaseException as error:  # exit() in a candidate is a failure of this input
                if not any("failure" in result for result in results):
                    print_failure(index, error)
                results.append({"failure": f"{violations.describe_error(error)}{_format_location(error)}"})
        return results


class FunctionServerJob:
    """Runs one function for an evaluator in another sandbox (`stand_in.RemoteFunction`). It never returns a value.

    Args:
        decode: Converts the source to the function.
    """

    def __init__(self, decode: Callable[[str], Any]) -> None:
        self._decode = decode
        seed_random()  # loads the modules

    def __call__(self, source: str) -> NoReturn:
        seed_random()
        show_source(source)
        fn = self._decode(source)
        program_server.serve(lambda server: server.get_number(fn))


def load_function_server(path: str) -> FunctionServerJob:
    """Creates a job whose functions can use the globals of a file."""
    names = dict(vars(load_module(path, "atoll_task")))
    return FunctionServerJob(partial(function.PyAstSkeleton, names=names))


def show_source(source: str) -> None:
    """Makes tracebacks show the lines of a function."""
    linecache.cache[SOURCE_NAME] = (len(source), None, source.splitlines(keepends=True), SOURCE_NAME)


def make_copier(inputs: list[Any]) -> Callable[[], list[Any]]:
    """Returns a function that copies the inputs, so that a candidate cannot change them for later ones."""
    try:
        packed = job_pickle.pack_job(inputs)
        pickle.loads(packed)
    except Exception:  # e.g. an open connection, which can only be shared
        return lambda: inputs
    return lambda: cast(list[Any], pickle.loads(packed))


def _to_plain(result: Any) -> JSON:
    """Converts numbers to float and returns other plain data as it is; raises TypeError for the rest."""
    if isinstance(result, SupportsFloat) and not isinstance(result, str):
        return float(result)
    json.dumps(result)
    return result  # type: ignore[no-any-return]  # it is JSON, or the line above raised


def seed_random() -> None:
    """Resets the random generators, so that a score does not depend on earlier candidates."""
    random.seed(0)
    with contextlib.suppress(KeyError, AttributeError):  # not loaded, or not completely
        numpy: Any = sys.modules["numpy"]
        numpy.random.seed(0)
        numpy.seterr(divide="warn", over="warn", under="ignore", invalid="warn")


def _format_location(error: BaseException) -> str:
    """Returns the location of the error: a line of the function, or of a file."""
    tb = error.__traceback__
    while tb and tb.tb_next:
        tb = tb.tb_next
    if tb is None:
        return ""
    remote_lines = _REMOTE_LINE.findall("\n".join(getattr(error, "__notes__", ())))
    if remote_lines:  # of a function in another sandbox
        return f" (line {remote_lines[-1]} of the function)"
    file, line = tb.tb_frame.f_code.co_filename, tb.tb_lineno
    return f" (line {line} of the function)" if file == SOURCE_NAME else f" ({os.path.basename(file)}, line {line})"


def print_failure(index: int, error: BaseException) -> None:
    """Prints the traceback of the first failure, as feedback for the next proposal."""
    tb = error.__traceback__
    while tb and tb.tb_frame.f_code.co_filename != SOURCE_NAME:
        tb = tb.tb_next
    with contextlib.suppress(BaseException):  # the candidate controls the exception and the stream
        sys.stderr.write(f"input {index}:\n")
        remote_traces = [note for note in getattr(error, "__notes__", ()) if _REMOTE_LINE.search(note)]
        if remote_traces:
            sys.stderr.write(remote_traces[-1].partition("\n")[2])
            return
        traceback.print_exception(type(error), error, tb or error.__traceback__, limit=-5)


def load_score_job(path: str, evaluator: str, inputs: str, decode: Callable[[str], Any] | None = None) -> ScoreJob:
    """Creates a job from the evaluator and the inputs in a file.

    Candidates can use the globals of the file: its imports, constants and helpers.

    Args:
        path: Python file.
        evaluator: Name of its function of (function, one input).
        inputs: Name of its list of inputs, or of a function without arguments that returns one.
        decode: As for `ScoreJob`.

    Raises:
        AttributeError: A name is missing in the file.
        ValueError: The inputs are empty.
    """
    module = load_module(path, "atoll_task")
    input_values: Any = _get_attribute(module, inputs, "task.inputs")
    input_values = list(input_values() if callable(input_values) else input_values)
    if not input_values:
        raise ValueError(f"{inputs} in {Path(path).name} is empty; add at least one input")
    return ScoreJob(_get_attribute(module, evaluator, "task.evaluator"), input_values, dict(vars(module)), decode)


def _get_attribute(module: ModuleType, name: str, key: str) -> Any:
    if not hasattr(module, name):
        raise AttributeError(
            f"{Path(str(module.__file__)).name} does not define {name}; define it, or set {key} to another name"
        )
    return getattr(module, name)
