"""How services write an answer down: OpenAI's chat completions, Anthropic's messages, Gemini's contents."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any


def prompt_of(data: Mapping[str, Any]) -> str:
    """Returns the text of the last message of a request."""
    if "contents" in data:
        parts = data["contents"][-1]["parts"]
    else:
        content = data["messages"][-1]["content"]
        parts = [{"text": content}] if isinstance(content, str) else content
    return "".join(part.get("text", "") for part in parts)


def answer(path: str, data: Mapping[str, Any], number: int, text: str) -> Mapping[str, Any] | None:
    """Returns the answer to a request as its path wants it; None: there is nothing at that path."""
    tokens = (len(prompt_of(data).split()), len(text.split()))
    model = data.get("model", "unnamed")
    if path.endswith("/chat/completions"):
        return _completion(number, model, text, tokens)
    if path.endswith("/messages"):
        usage = {"input_tokens": tokens[0], "output_tokens": tokens[1]}
        said = {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": None}
        return {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model, "usage": usage, **said}
    if path.partition("?")[0].endswith(":generateContent"):
        counts = dict(zip(("promptTokenCount", "candidatesTokenCount"), tokens, strict=True))
        found = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP", "index": 0}
        return {"candidates": [found], "usageMetadata": counts, "modelVersion": path.split("/")[-1].split(":")[0]}
    return None


def is_known(path: str) -> bool:
    """Tells whether there is anything at a path."""
    return path.partition("?")[0].endswith(("/chat/completions", "/messages", ":generateContent"))


def events(completion: Mapping[str, Any]) -> str:
    """Returns a completion as a stream of server-sent events, a word each."""
    choice = completion["choices"][0]
    words = re.findall(r"\S*\s*", choice["message"]["content"])
    steps = [{"index": 0, "delta": {"role": "assistant", "content": word}, "finish_reason": None} for word in words]
    steps.append({"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]})
    shared = {**completion, "object": "chat.completion.chunk"}
    chunks = [{**shared, "choices": [step], "usage": None} for step in steps]
    chunks.append({**shared, "choices": [], "usage": completion["usage"]})
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


def _completion(number: int, model: str, text: str, tokens: Sequence[int]) -> Mapping[str, Any]:
    return {
        "id": f"completion-{number}",
        "object": "chat.completion",
        "provider": "Loopback",  # who answered; a gateway says so
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)},
    }
