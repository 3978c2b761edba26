"""An SDK that is asked from threads which wait, though it speaks on an event loop."""

from typing import Protocol

from atoll.llm import loop
from atoll.llm.llm import Response


class AsyncChat(Protocol):
    """Belongs to the event loop on which it is first used; `chat.Chat` is one."""

    @property
    def supports_json_schema(self) -> bool: ...

    async def ask(self, prompt: str, /) -> Response: ...

    async def aclose(self) -> None: ...


class LoopRunner:
    """Has it speak on the loop of this process."""

    def __init__(self, chat: AsyncChat) -> None:
        self._chat, self._loop = chat, loop.PROCESS_LOOP.get()

    @property
    def supports_json_schema(self) -> bool:
        """Whether the provider holds a reply to a JSON schema, as far as is known."""
        return self._chat.supports_json_schema

    @property
    def belongs_to_process(self) -> bool:
        """Whether its loop runs here: a forked child has another."""
        return self._loop is loop.PROCESS_LOOP.get()

    def ask(self, prompt: str) -> Response:
        """Returns the reply of one try.

        Raises:
            NoReply: There is none, and why.
        """
        return loop.run_coroutine(self._chat.ask(prompt))

    def close(self) -> None:
        """Ends the connections, if their loop still runs."""
        loop.PROCESS_LOOP.spawn(self._loop, self._chat.aclose)
