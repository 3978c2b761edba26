"""Model objects of pydantic-ai that a user made."""

from collections.abc import Callable
from typing import Any

from atoll.evaluation import Cost
from atoll.llm.base import Response, get_messages


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
