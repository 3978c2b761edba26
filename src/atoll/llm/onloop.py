"""An SDK that is asked from threads which wait, though it speaks on an event loop."""

from typing import Protocol

from atoll.llm import loop
from atoll.llm.llm import Reply


class Chat(Protocol):
    """Belongs to the event loop on which it is first used; `chat.Chat` is one."""

    @property
    def can_enforce(self) -> bool: ...

    async def ask(self, prompt: str, /) -> Reply: ...

    async def aclose(self) -> None: ...


class OnLoop:
    """Has it speak on the loop of this process."""

    def __init__(self, chat: Chat) -> None:
        self._chat, self._loop = chat, loop.PROCESS.get()

    @property
    def can_enforce(self) -> bool:
        """Whether the provider holds a reply to a JSON schema, as far as is known."""
        return self._chat.can_enforce

    @property
    def is_ours(self) -> bool:
        """Whether its loop runs here: a forked child has another."""
        return self._loop is loop.PROCESS.get()

    def ask(self, prompt: str) -> Reply:
        """Returns the reply of one try.

        Raises:
            NoReply: There is none, and why.
        """
        return loop.run(self._chat.ask(prompt))

    def close(self) -> None:
        """Ends the connections, if their loop still runs."""
        loop.PROCESS.spawn(self._loop, self._chat.aclose)
