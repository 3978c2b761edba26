"""Agent contexts: reads and writes kimi-cli's context.jsonl, and adapts its ChatProvider to an LLM.

A context is an append-only file of JSON lines. Each line is a message with a role, or a record whose role begins with
an underscore: `_system_prompt`, `_checkpoint` with an id, `_usage` with a token count.
"""

import asyncio
import json
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from atoll import errors, llm
from atoll.evaluation import Cost
from atoll.mind.worldline import Checkpoint, Worldline

CHECKPOINT_ROLE = "_checkpoint"


def to_lines(worldline: Worldline) -> Iterator[str]:
    """Yields a worldline's context as lines of a context.jsonl. Its summary becomes an assistant message."""
    for message in worldline.context:
        yield json.dumps(dict(message), ensure_ascii=False)
    if worldline.summary:
        yield json.dumps({"role": "assistant", "content": worldline.summary}, ensure_ascii=False)


def from_lines(lines: Iterable[str], worldline_id: str, *, checkpoint: int | None = None) -> Worldline:
    """Reads a context.jsonl, completely or up to a checkpoint.

    Args:
        lines: Lines of the file.
        worldline_id: Id of the new worldline.
        checkpoint: Id of the checkpoint to stop at; None reads all lines.

    Raises:
        SetupError: A line is not a JSON object with a role.
        NotFound: The checkpoint is not in the file.
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
    """Returns a worldline whose context ends with a new checkpoint."""
    messages = (*worldline.context, {"role": CHECKPOINT_ROLE, "id": checkpoint_id})
    return replace(worldline, context=messages, checkpoint=replace(worldline.checkpoint, line=len(messages)))


def _parse_message(text: str, line_number: int) -> Mapping[str, Any]:
    try:
        message = json.loads(text)
    except ValueError:
        message = None
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise errors.SetupError(
            f"Line {line_number} of the context is not a JSON object with a role. Pass a context.jsonl file."
        )
    return message


class ChatProvider(Protocol):
    """Interface of kosong's chat providers: an asynchronous stream of parts with a text."""

    def generate(self, system_prompt: str, tools: Sequence[Any], history: Sequence[Any]) -> Awaitable[Any]: ...


class _Message:
    """Message with the fields of kosong's messages."""

    def __init__(self, role: str, content: str) -> None:
        self.role, self.content = role, content


@dataclass(frozen=True, slots=True)
class ChatProviderLLM:
    """Chat provider as an LLM: sends one prompt and joins the texts of all parts.

    Attributes:
        provider: Called on a new event loop in the calling thread.
        make_message: Makes a message from role and text, if the provider needs its own class.
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
