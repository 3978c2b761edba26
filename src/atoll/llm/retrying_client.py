"""The client of one endpoint: asks, and again when a server is busy."""

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
    """Speaks with one server: `completions.Completions` by plain HTTP, `onloop.OnLoop` by an SDK."""

    @property
    def supports_json_schema(self) -> bool:
        """Whether the server holds a reply to a JSON schema, as far as is known."""

    @property
    def belongs_to_process(self) -> bool:
        """Whether it speaks for this process: a forked child has connections of its own."""

    def ask(self, prompt: str, /) -> Response:
        """Returns the reply of one try; called from several threads at once.

        Raises:
            NoReply: There is none, and why.
        """

    def close(self) -> None:
        """Ends the connections."""


class RetryingClient:
    """Asks a model, with retries; called from several threads at once, also in a forked child."""

    def __init__(self, endpoint: Endpoint, sampling: SamplingOptions, policy: RetryPolicy) -> None:
        self._endpoint, self._sampling, self._policy = endpoint, sampling, policy
        self._circuit = CircuitBreaker(policy)
        self._lock = Lock()
        self._current_chat: SyncChat | None = None

    @property
    def supports_json_schema(self) -> bool:
        """Whether the provider holds a reply to a JSON schema, as far as is known."""
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
            # Those who were refused together shall not come back together.
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
        """Returns what speaks for this process."""
        chat = self._current_chat
        if chat is None or not chat.belongs_to_process:
            with self._lock:
                chat = self._current_chat
                if chat is None or not chat.belongs_to_process:
                    self._current_chat = chat = _make_chat(self._endpoint, self._sampling, self._policy.timeout_seconds)
                    weakref.finalize(self, chat.close)
        return chat


def _make_chat(endpoint: Endpoint, sampling: SamplingOptions, timeout_seconds: float) -> SyncChat:
    needs_sdk = endpoint.is_encrypted or SERVICES[endpoint.service].extra
    if not needs_sdk and not sampling.stream and sampling.thinking is None:
        return OpenAIHTTPChat(endpoint, sampling, timeout_seconds)
    from atoll.llm import pydantic_ai_chat  # takes more than a second to import

    return pydantic_ai_chat.PydanticAIChat(endpoint, sampling, timeout_seconds)


def _make_wait_error(error: LLMError, policy: RetryPolicy) -> LLMError:
    seconds = error.retry_seconds or 0.0
    message = (
        f"{error} The server wants to be left alone for {seconds:g} seconds, and we wait {policy.max_wait_seconds:g}."
    )
    return LLMError(message, status=error.status, is_transient=True, retry_seconds=seconds, is_down=True)


def _add_attempt_count(error: LLMError, attempts: int) -> LLMError:
    if attempts == 1:
        return error
    message = f"{error} It was tried {attempts} times."
    return LLMError(message, status=error.status, is_transient=error.is_transient, retry_seconds=error.retry_seconds)


def _compute_jitter(prompt: str) -> float:
    return zlib.crc32(prompt.encode(errors="replace")) / 2**32
