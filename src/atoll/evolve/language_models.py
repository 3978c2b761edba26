"""The `llm` argument of `atoll.evolve`: a name, a function, a coroutine function, or a model of pydantic-ai."""

import inspect
from collections.abc import Callable
from typing import Any

from atoll import errors, llm, runs
from atoll.llm import pydantic_ai_objects
from atoll.programs.gepa.loop_thread import LoopThread


def has_price(value: Any) -> bool:
    """Returns whether an LLM has a price before it is called; a function may report its dollars afterwards."""
    return value is None or isinstance(value, (str, llm.HostedLLM, llm.EnsembleLLM))


def get_name(value: Any) -> str:
    """Returns the name of an LLM, for the store and for messages."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else str(getattr(value, "model_name", "") or "a function")


def make_llm_factory(value: Any, loop: LoopThread) -> runs.LLMFactory | None:
    """Returns a factory for an object that was passed as LLM; None for names, which the session resolves.

    Args:
        loop: Runs coroutines.

    Raises:
        SetupError: The object is not an LLM.
    """
    if value is None or isinstance(value, str):
        return None
    if pydantic_ai_objects.is_model(value):
        return lambda run_config: llm.FunctionLLM(pydantic_ai_objects.make_ask(value, loop.run), name=get_name(value))
    if not callable(value):
        raise errors.SetupError(f"llm is {value!r:.60}. Give the name of an LLM, a function of the prompt, or None.")
    call: Callable[[str], Any] = value
    if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(getattr(value, "__call__", None)):  # noqa: B004
        name = str(getattr(value, "__name__", type(value).__name__))
        return lambda run_config: llm.FunctionLLM(lambda prompt: loop.run(call(prompt)), name=name)
    return lambda run_config: value if has_price(value) else llm.FunctionLLM(call)
