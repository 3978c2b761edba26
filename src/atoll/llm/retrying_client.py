"""Client of one endpoint, with retries and a circuit breaker."""

import time
import weakref
import zlib
from dataclasses import replace
from threading import Lock
from typing import Protocol

from atoll.llm.base import LLMError, Response
from atoll.llm.endpoint import SERVICES, Endpoint, SamplingOptions
from atoll.llm.openai_http import OpenAIHTTPChat
from atoll.llm.retry_policy import CircuitBreaker, RetryPolicy


class SyncChat(Protocol):
    """Makes single attempts at one server: `OpenAIHTTPChat` by HTTP, `PydanticAIChat` by an SDK."""

    @property
    def supports_json_schema(self) -> bool:
        """True if the server enforces JSON schemas, as far as known."""

    @property
    def belongs_to_process(self) -> bool:
        """True if it was made in this process. A forked child needs its own connections."""

    def ask(self, prompt: str, /) -> Response:
        """Returns the response of one attempt. Several threads call it at once.

        Raises:
            LLMError: The attempt failed; the message says why.
        """

    def close(self) -> None:
        """Closes the connections."""


class RetryingClient:
    """Calls an LLM with retries. Several threads call it at once, also in a forked child."""

    def __init__(self, endpoint: Endpoint, sampling: SamplingOptions, policy: RetryPolicy) -> None:
        self._endpoint, self._sampling, self._policy = endpoint, sampling, policy
        self._circuit = CircuitBreaker(policy)
        self._lock = Lock()
        self._current_chat: SyncChat | None = None

    @property
    def supports_json_schema(self) -> bool:
        """True if the provider enforces JSON schemas, as far as known."""
        return self._get_chat().supports_json_schema

    def __call__(self, prompt: str) -> Response:
        chat, started_at = self._get_chat(), time.perf_counter()
        response = self._ask(chat, prompt)
        return replace(response, cost=replace(response.cost, seconds=time.perf_counter() - started_at))

    def _ask(self, chat: SyncChat, prompt: str) -> Response:
        policy, attempts, jitter = self._policy, 0, _compute_jitter(prompt)
        while True:
            self._circuit.wait_to_start(jitter)
            attempts += 1
            try:
                return self._attempt(chat, prompt)
            except LLMError as error:
                if (error.retry_seconds or 0.0) > policy.max_wait_seconds:
                    raise _make_wait_error(error, policy) from None
                if not error.is_transient or attempts > policy.retries:
                    raise _add_attempt_count(error, attempts) from None
            # The jitter spreads calls that were refused together.
            time.sleep(policy.backoff_seconds * 2.0 ** (attempts - 1) * (1.0 + jitter))

    def _attempt(self, chat: SyncChat, prompt: str) -> Response:
        try:
            response = chat.ask(prompt)
        except LLMError as error:
            if error.is_transient:
                self._circuit.record_failure(error)
            else:
                self._circuit.record_success()
            raise
        except BaseException:
            self._circuit.record_abandoned()
            raise
        self._circuit.record_success()
        return response

    def _get_chat(self) -> SyncChat:
        """Returns the chat of this process."""
        chat = self._current_chat
        if chat is None or not chat.belongs_to_process:
            with self._lock:
                chat = self._current_chat
                if chat is None or not chat.belongs_to_process:
                    self._current_chat = chat = _make_chat(self._endpoint, self._sampling, self._policy.timeout_seconds)
                    weakref.finalize(self, chat.close)
        return chat


def _make_chat(endpoint: Endpoint, sampling: SamplingOptions, timeout_seconds: float) -> SyncChat:
    # `https://` means a hosted service, and these differ in details that SDKs know.
    needs_sdk = endpoint.is_encrypted or SERVICES[endpoint.service].extra
    if not needs_sdk and not sampling.stream and sampling.thinking is None:
        return OpenAIHTTPChat(endpoint, sampling, timeout_seconds)
    from atoll.llm import pydantic_ai_chat  # takes more than a second to import

    return pydantic_ai_chat.PydanticAIChat(endpoint, sampling, timeout_seconds)


def _make_wait_error(error: LLMError, policy: RetryPolicy) -> LLMError:
    seconds = error.retry_seconds or 0.0
    message = f"{error} The server asks to wait {seconds:g} seconds; max_wait_seconds is {policy.max_wait_seconds:g}."
    return LLMError(message, status=error.status, is_transient=True, retry_seconds=seconds, is_down=True)


def _add_attempt_count(error: LLMError, attempts: int) -> LLMError:
    if attempts == 1:
        return error
    message = f"{error} Failed after {attempts} attempts."
    return LLMError(message, status=error.status, is_transient=error.is_transient, retry_seconds=error.retry_seconds)


def _compute_jitter(prompt: str) -> float:
    return zlib.crc32(prompt.encode(errors="replace")) / 2**32
