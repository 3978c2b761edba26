"""Agents' contexts: import and export of kimi-cli's context.jsonl, and its ChatProvider as a model; no dependency.

A context is an append-only file of JSON lines: messages with a role, and records whose role begins with an underscore:
`_system_prompt`, `_checkpoint` with an id, `_usage` with a count of tokens.
"""

import asyncio
import json
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from atoll import errors, llm
from atoll.evaluation import Cost
from atoll.mind.worldline import Checkpoint, Worldline

CHECKPOINT_ROLE, USAGE_ROLE, SYSTEM_ROLE = "_checkpoint", "_usage", "_system_prompt"


def to_lines(worldline: Worldline) -> Iterator[str]:
    """Yields a worldline's context as lines of a context.jsonl; its summary is a message of the assistant."""
    for message in worldline.context:
        yield json.dumps(dict(message), ensure_ascii=False)
    if worldline.summary:
        yield json.dumps({"role": "assistant", "content": worldline.summary}, ensure_ascii=False)


def from_lines(lines: Iterable[str], worldline_id: str, *, checkpoint: int | None = None) -> Worldline:
    """Reads a context.jsonl, whole or up to the record of a checkpoint: that is what going back to it leaves.

    Args:
        lines: Of the file.
        worldline_id: What the worldline is called.
        checkpoint: The id of a checkpoint in it; None: all of it.

    Raises:
        SetupError: A line is no JSON object with a role.
        NotFound: There is no such checkpoint.
    """
    messages = list[Mapping[str, Any]]()
    for line_number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        message = _parse_message(line, line_number)
        messages.append(message)
        if checkpoint is not None and message["role"] == CHECKPOINT_ROLE and message.get("id") == checkpoint:
            break
    else:
        if checkpoint is not None:
            raise errors.NotFound(f"The context has no checkpoint {checkpoint}.")
    responses = [str(message.get("content", "")) for message in messages if message["role"] == "assistant"]
    return Worldline(
        worldline_id,
        context=tuple(messages),
        checkpoint=Checkpoint(line=len(messages)),
        summary="",
        agent_prompts=tuple(responses),
    )


def with_checkpoint(worldline: Worldline, checkpoint_id: int) -> Worldline:
    """Returns a worldline whose context ends with a checkpoint to go back to."""
    messages = (*worldline.context, {"role": CHECKPOINT_ROLE, "id": checkpoint_id})
    return replace(worldline, context=messages, checkpoint=replace(worldline.checkpoint, line=len(messages)))


def _parse_message(text: str, line_number: int) -> Mapping[str, Any]:
    try:
        message = json.loads(text)
    except ValueError:
        message = None
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise errors.SetupError(
            f"Line {line_number} of the context is no JSON object with a role: give a context.jsonl."
        )
    return message


class ChatProvider(Protocol):
    """What kosong calls a chat provider, by its shape: an asynchronous stream of parts that have a text."""

    def generate(self, system_prompt: str, tools: Sequence[Any], history: Sequence[Any]) -> Awaitable[Any]: ...


class _Message:
    """A message of kosong's, by its shape."""

    def __init__(self, role: str, content: str) -> None:
        self.role, self.content = role, content


@dataclass(frozen=True, slots=True)
class ChatProviderLLM:
    """A chat provider as a model: one prompt in, the texts of all parts out.

    Attributes:
        provider: Asked on an event loop of its own, in the thread of the step.
        make_message: Makes a message of role and text, where a class of the provider's own is needed.
    """

    provider: ChatProvider
    system_prompt: str = "You are a careful planner."
    make_message: Any = _Message

    def __call__(self, prompt: str) -> llm.Response:
        return asyncio.run(self._request(prompt))

    async def _request(self, prompt: str) -> llm.Response:
        stream = await self.provider.generate(self.system_prompt, (), [self.make_message("user", prompt)])
        texts = [getattr(part, "text", None) async for part in stream]
        usage = getattr(stream, "usage", None)
        tokens = [int(getattr(usage, name, 0) or 0) for name in ("input", "output")]
        name = str(getattr(self.provider, "model_name", None) or type(self.provider).__name__)
        return llm.Response("".join(cast(str, text) for text in texts if text), name, Cost(0.0, *tokens))
