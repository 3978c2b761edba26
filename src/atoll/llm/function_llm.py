"""Your own function, or a model object of pydantic-ai that you made, as an LLM."""

import importlib
import inspect
import runpy
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from atoll import errors
from atoll.evaluation import Cost
from atoll.llm.base import Response, get_messages


class FunctionLLM:
    """Calls a function that returns a text or a `Response`. Several threads call it at once."""

    def __init__(self, function: Callable[[str], str | Response], *, name: str | None = None) -> None:
        """Takes the function.

        Args:
            function: Gets the prompt. Its exceptions pass through.
            name: Model name for responses that are only a text; default: the name of the function.
        """
        if not callable(function):
            raise errors.SetupError(
                f"{function!r:.80} is not a function. Pass one that takes a prompt and returns a str."
            )
        self._function = function
        self._name = name or str(getattr(function, "__name__", type(function).__name__))

    def __call__(self, prompt: str) -> Response:
        """Returns the response. Measures the seconds unless the function reports them.

        Raises:
            SetupError: The function returned neither a str nor a `Response`.
        """
        started_at = time.perf_counter()
        result: object = self._function(prompt)
        seconds = time.perf_counter() - started_at
        if isinstance(result, str):
            return Response(result, self._name, Cost(seconds=seconds))
        if isinstance(result, Response):
            return replace(result, cost=replace(result.cost, seconds=result.cost.seconds or seconds))
        if inspect.iscoroutine(result):
            result.close()
            raise errors.SetupError(f"Function {self._name} is async. Pass a synchronous one.")
        type_name = type(result).__name__
        raise errors.SetupError(f"Function {self._name} returned {type_name}. Return a str or an llm.Response.")


def load_function_llm(text: str) -> FunctionLLM:
    """Returns the LLM for `FILE.py:FUNCTION` or `MODULE:FUNCTION`.

    Raises:
        SetupError: The file, module or function does not exist.
    """
    source, _, name = text.rpartition(":")
    if not source or not name.isidentifier():
        raise errors.SetupError(f"'python:{text}' does not name a function. Write python:FILE.py:FUNCTION.")
    try:
        function = _load_from_file(source, name) if source.endswith(".py") else _load_from_module(source, name)
    except FileNotFoundError as error:
        raise errors.SetupError(f"{error.filename or source} of 'python:{text}' not found. Check the path.") from error
    except (OSError, ImportError, SyntaxError) as error:
        raise errors.SetupError(
            f"The function of 'python:{text}' does not load: {error}. Check its code and imports."
        ) from error
    if function is None:
        raise errors.SetupError(f"{source} has no function {name!r}. Name one that takes a prompt and returns a str.")
    return FunctionLLM(function, name=name)


def _load_from_file(path: str, name: str) -> Any:
    """Returns a value of a file, which may import modules beside it, also when the function is called."""
    folder = str(Path(path).resolve().parent)
    if Path(path).is_file() and folder not in sys.path:
        sys.path.append(folder)
    return runpy.run_path(path).get(name)


def _load_from_module(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name, None)


def is_model(value: Any) -> bool:
    """Returns whether it is a model of pydantic-ai, without importing it: that takes a second."""
    return any(base.__module__ == "pydantic_ai.models" and base.__name__ == "Model" for base in type(value).__mro__)


def make_ask(model: Any, run_coroutine: Callable[[Any], Any]) -> Callable[[str], Response]:
    """Returns a function that asks a model.

    Args:
        run_coroutine: Waits for a coroutine.
    """

    def ask(prompt: str) -> Response:
        from pydantic_ai import direct, messages  # slow import

        system_texts = [text for role, text in get_messages(prompt) if role == "system"]
        other_messages = [(role, text) for role, text in get_messages(prompt) if role != "system"]
        requests: list[messages.ModelMessage] = []
        parts: list[Any] = [messages.SystemPromptPart(text) for text in system_texts]
        for role, text in other_messages:
            if role == "assistant":
                requests.append(messages.ModelResponse([messages.TextPart(text)]))
            else:
                requests.append(messages.ModelRequest([*parts, messages.UserPromptPart(text)]))
                parts = []
        response = run_coroutine(direct.model_request(model, requests))
        usage = response.usage
        tokens = (int(usage.input_tokens or 0), int(usage.output_tokens or 0))
        text = "".join(part.content for part in response.parts if isinstance(part, messages.TextPart))
        return Response(text, response.model_name or str(model.model_name), Cost(0.0, *tokens))

    return ask
