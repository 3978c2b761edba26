"""The client of one endpoint: asks, and again when a server is busy."""

import time
import urllib.request
import weakref
import zlib
from dataclasses import replace
from ipaddress import ip_address
from threading import Lock
from typing import Protocol

from atoll.llm.circuit import Circuit
from atoll.llm.completions import Completions
from atoll.llm.endpoint import SERVICES, Endpoint
from atoll.llm.llm import NoReply, Reply
from atoll.llm.onloop import OnLoop
from atoll.llm.policy import Policy
from atoll.llm.sampling import Sampling


class Chat(Protocol):
    """Speaks with one server: `completions.Completions` by plain HTTP, `onloop.OnLoop` by an SDK."""

    @property
    def can_enforce(self) -> bool:
        """Whether the server holds a reply to a JSON schema, as far as is known."""

    @property
    def is_ours(self) -> bool:
        """Whether it speaks for this process: a forked child has connections of its own."""

    def ask(self, prompt: str, /) -> Reply:
        """Returns the reply of one try; called from several threads at once.

        Raises:
            NoReply: There is none, and why.
        """

    def close(self) -> None:
        """Ends the connections."""


class Client:
    """Asks a model, with retries; called from several threads at once, also in a forked child."""

    def __init__(self, endpoint: Endpoint, sampling: Sampling, policy: Policy) -> None:
        self._endpoint, self._sampling, self._policy = endpoint, sampling, policy
        self._circuit = Circuit(policy)
        self._lock = Lock()
        self._connected: Chat | None = None

    @property
    def can_enforce(self) -> bool:
        """Whether the provider holds a reply to a JSON schema, as far as is known."""
        return self._chat().can_enforce

    def __call__(self, prompt: str) -> Reply:
        chat, start = self._chat(), time.perf_counter()
        reply = self._ask(chat, prompt)
        return replace(reply, cost=replace(reply.cost, seconds=time.perf_counter() - start))

    def _ask(self, chat: Chat, prompt: str) -> Reply:
        policy, tries, spread = self._policy, 0, _spread(prompt)
        while True:
            self._circuit.enter(spread)
            tries += 1
            try:
                return self._try(chat, prompt)
            except NoReply as error:
                if (error.retry_seconds or 0.0) > policy.max_wait_seconds:
                    raise _resting(error, policy) from None
                if not error.is_transient or tries > policy.retries:
                    raise _after(error, tries) from None
            # Those who were refused together shall not come back together.
            time.sleep(policy.backoff_seconds * 2.0 ** (tries - 1) * (1.0 + spread))

    def _try(self, chat: Chat, prompt: str) -> Reply:
        try:
            reply = chat.ask(prompt)
        except NoReply as error:
            if error.is_transient:
                self._circuit.failed(error)
            else:
                self._circuit.succeeded()
            raise
        except BaseException:
            self._circuit.left()
            raise
        self._circuit.succeeded()
        return reply

    def _chat(self) -> Chat:
        """Returns what speaks for this process."""
        chat = self._connected
        if chat is None or not chat.is_ours:
            with self._lock:
                chat = self._connected
                if chat is None or not chat.is_ours:
                    self._connected = chat = _make_chat(self._endpoint, self._sampling, self._policy.timeout_seconds)
                    weakref.finalize(self, chat.close)
        return chat


def _make_chat(endpoint: Endpoint, sampling: Sampling, seconds: float) -> Chat:
    is_direct = _is_direct(endpoint)
    if is_direct and not SERVICES[endpoint.service].extra and not sampling.stream and sampling.thinking is None:
        return Completions(endpoint, sampling, seconds)
    from atoll.llm import chat  # takes more than a second; a server of one's own does without

    return OnLoop(chat.Chat(endpoint, sampling, seconds, is_direct=is_direct))


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


def _resting(error: NoReply, policy: Policy) -> NoReply:
    seconds = error.retry_seconds or 0.0
    message = (
        f"{error} The server wants to be left alone for {seconds:g} seconds, and we wait {policy.max_wait_seconds:g}."
    )
    return NoReply(message, status=error.status, is_transient=True, retry_seconds=seconds, is_down=True)


def _after(error: NoReply, tries: int) -> NoReply:
    if tries == 1:
        return error
    message = f"{error} It was tried {tries} times."
    return NoReply(message, status=error.status, is_transient=error.is_transient, retry_seconds=error.retry_seconds)


def _spread(prompt: str) -> float:
    return zlib.crc32(prompt.encode(errors="replace")) / 2**32
