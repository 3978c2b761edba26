"""The client of one endpoint: from any thread onto the event loop, and again when a server is busy."""

import asyncio
import time
import urllib.request
import weakref
import zlib
from dataclasses import replace
from ipaddress import ip_address
from threading import Lock

from pydantic_ai.settings import ModelSettings

from atoll.llm import loop
from atoll.llm.chat import Chat
from atoll.llm.endpoint import Endpoint
from atoll.llm.llm import NoReply, Reply


class Client:
    """Asks a model, with retries; called from several threads at once, also in a forked child."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        temperature: float | None,
        max_tokens: int | None,
        timeout_seconds: float,
        retries: int,
        backoff_seconds: float,
    ) -> None:
        self._endpoint, self._timeout_seconds = endpoint, timeout_seconds
        self._retries, self._backoff_seconds = retries, backoff_seconds
        self._settings = ModelSettings()
        if temperature is not None:
            self._settings["temperature"] = temperature
        if max_tokens is not None:
            self._settings["max_tokens"] = max_tokens
        self._lock = Lock()
        self._connected: tuple[asyncio.AbstractEventLoop, Chat] | None = None

    def __call__(self, prompt: str) -> Reply:
        chat, start = self._chat(), time.perf_counter()
        reply = loop.run(self._ask(chat, prompt))
        return replace(reply, cost=replace(reply.cost, seconds=time.perf_counter() - start))

    async def _ask(self, chat: Chat, prompt: str) -> Reply:
        tries = 0
        while True:
            try:
                return await chat.ask(prompt, self._settings)
            except NoReply as error:
                tries += 1
                if not error.is_transient or tries > self._retries:
                    raise _after(error, tries) from None
                pause = max(self._backoff_seconds * 2 ** (tries - 1), error.retry_seconds or 0.0)
            # Those who were refused together shall not come back together.
            await asyncio.sleep(min(pause, self._timeout_seconds) * (1.0 + _spread(prompt)))

    def _chat(self) -> Chat:
        """Returns what speaks on the loop of this process: a forked child has a loop and connections of its own."""
        current = loop.PROCESS.get()
        if self._connected is None or self._connected[0] is not current:
            with self._lock:
                if self._connected is None or self._connected[0] is not current:
                    chat = Chat(self._endpoint, self._timeout_seconds, is_direct=_is_direct(self._endpoint))
                    weakref.finalize(chat, loop.PROCESS.spawn, current, chat.http.aclose)
                    self._connected = (current, chat)
        return self._connected[1]


def _is_direct(endpoint: Endpoint) -> bool:
    """Tells whether a server is reached by plain HTTP, without TLS and without a proxy."""
    if endpoint.is_encrypted or _is_loopback(endpoint.host):
        return not endpoint.is_encrypted
    proxies = urllib.request.getproxies()
    is_proxied = ("http" in proxies or "all" in proxies) and not urllib.request.proxy_bypass(endpoint.host)
    return not is_proxied


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _after(error: NoReply, tries: int) -> NoReply:
    if tries == 1:
        return error
    message = f"{error} It was tried {tries} times."
    return NoReply(message, status=error.status, is_transient=error.is_transient, retry_seconds=error.retry_seconds)


def _spread(prompt: str) -> float:
    return zlib.crc32(prompt.encode(errors="replace")) / 2**32
