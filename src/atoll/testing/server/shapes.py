"""Response formats: OpenAI chat completions, Anthropic messages, Gemini contents."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from atoll import llm


def get_messages(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the messages of a request as (role, text), in the names of OpenAI's roles."""
    system = data.get("system") or data.get("systemInstruction", {}).get("parts")
    messages = [("system", _join_parts(system))] if system else []
    for message in data.get("contents") or data["messages"]:
        role = {"model": "assistant"}.get(message.get("role", "user"), message.get("role", "user"))
        messages.append((role, _join_parts(message.get("parts") or message["content"])))
    return messages


def _join_parts(content: str | Sequence[Mapping[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def get_prompt(data: Mapping[str, Any]) -> str:
    """Returns the texts of a request, joined as in `llm.ChatPrompt`."""
    return llm.ChatPrompt(*get_messages(data))  # type: ignore[arg-type]  # these are its roles


def make_answer(path: str, data: Mapping[str, Any], index: int, text: str) -> Mapping[str, Any] | None:
    """Returns the response in the format of the path; None for an unknown path."""
    tokens = (len(get_prompt(data).split()), len(text.split()))
    model = data.get("model", "unnamed")
    if path.endswith("/chat/completions"):
        return _make_completion(index, model, text, tokens)
    if path.endswith("/messages"):
        usage = {"input_tokens": tokens[0], "output_tokens": tokens[1]}
        message = {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": None}
        return {"id": f"msg_{index}", "type": "message", "role": "assistant", "model": model, "usage": usage, **message}
    if path.partition("?")[0].endswith(":generateContent"):
        counts = dict(zip(("promptTokenCount", "candidatesTokenCount"), tokens, strict=True))
        candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP", "index": 0}
        return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": path.split("/")[-1].split(":")[0]}
    return None


def is_known(path: str) -> bool:
    """Returns whether the path is served."""
    return path.partition("?")[0].endswith(("/chat/completions", "/messages", ":generateContent"))


def format_events(completion: Mapping[str, Any]) -> str:
    """Returns a completion as server-sent events, one per word."""
    choice = completion["choices"][0]
    words = re.findall(r"\S*\s*", choice["message"]["content"])
    choices = [{"index": 0, "delta": {"role": "assistant", "content": word}, "finish_reason": None} for word in words]
    choices.append({"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]})
    common = {**completion, "object": "chat.completion.chunk"}
    chunks = [{**common, "choices": [choice_delta], "usage": None} for choice_delta in choices]
    chunks.append({**common, "choices": [], "usage": completion["usage"]})
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


def _make_completion(index: int, model: str, text: str, tokens: Sequence[int]) -> Mapping[str, Any]:
    return {
        "id": f"completion-{index}",
        "object": "chat.completion",
        "provider": "Loopback",  # gateways name the provider
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)},
    }
