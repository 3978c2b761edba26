"""Client of one endpoint, with retries and a circuit breaker."""

import time
import weakref
import zlib
from dataclasses import replace
from threading import Lock
from typing import Protocol

from atoll.llm.base import BudgetExhausted, LLMError, Response, current_meter, get_schema
from atoll.llm.budget import Price, add_missing_tokens
from atoll.llm.endpoint import Endpoint, SamplingOptions, needs_sdk
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
        """Returns the response of one request. Several threads call it at once.

        Its cost has the tokens and dollars that the server reports. If the server refuses a JSON schema, the attempt
        fails and `supports_json_schema` is False from then on.

        Raises:
            LLMError: The attempt failed; the message says why.
        """

    def close(self) -> None:
        """Closes the connections."""


class RetryingClient:
    """Calls an LLM with retries. Several threads call it at once, also in a forked child.

    A budget reserves each request before it is sent, retries too. The price is that of the model that was asked for.
    """

    def __init__(
        self, endpoint: Endpoint, sampling: SamplingOptions, policy: RetryPolicy, price: Price | None = None
    ) -> None:
        self._endpoint, self._sampling, self._policy, self._price = endpoint, sampling, policy, price
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
        last_error: LLMError | None = None
        while True:
            self._circuit.wait_to_start(jitter)
            attempts += 1
            has_schema = get_schema(prompt) is not None and chat.supports_json_schema
            try:
                return self._attempt(chat, prompt)
            except BudgetExhausted as error:
                raise error if last_error is None else _add_budget_note(last_error, error) from None
            except LLMError as error:
                last_error = error
                if has_schema and not chat.supports_json_schema:
                    attempts -= 1
                    continue  # the prompt contains the schema too, so it is enough alone
                if (error.retry_seconds or 0.0) > policy.max_wait_seconds:
                    raise _make_wait_error(error, policy) from None
                if not error.is_transient or attempts > policy.retries:
                    raise _add_attempt_count(error, attempts) from None
            # The jitter spreads calls that were refused together.
            time.sleep(policy.backoff_seconds * 2.0 ** (attempts - 1) * (1.0 + jitter))

    def _attempt(self, chat: SyncChat, prompt: str) -> Response:
        meter = current_meter.get()
        try:
            if meter is not None:
                meter.reserve()
            response = add_missing_tokens(prompt, chat.ask(prompt))
        except BudgetExhausted:
            self._circuit.record_abandoned()
            raise
        except LLMError as error:
            if error.cost is not None and self._price is not None:
                error.cost = self._price.apply(error.cost)
            if meter is not None:
                meter.fail(error.cost)
            if error.is_transient:
                self._circuit.record_failure(error)
            else:
                self._circuit.record_success()
            raise
        except BaseException:
            self._circuit.record_abandoned()
            raise
        self._circuit.record_success()
        return response if self._price is None else replace(response, cost=self._price.apply(response.cost))

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
    if not needs_sdk(endpoint, sampling):
        return OpenAIHTTPChat(endpoint, sampling, timeout_seconds)
    from atoll.llm import pydantic_ai_chat  # takes more than a second to import

    return pydantic_ai_chat.PydanticAIChat(endpoint, sampling, timeout_seconds)


def _make_wait_error(error: LLMError, policy: RetryPolicy) -> LLMError:
    seconds = error.retry_seconds or 0.0
    message = f"{error} The server asks to wait {seconds:g} seconds; max_wait_seconds is {policy.max_wait_seconds:g}."
    return LLMError(
        message, status=error.status, is_transient=True, retry_seconds=seconds, is_down=True, cost=error.cost
    )


def _add_budget_note(error: LLMError, refusal: LLMError) -> LLMError:
    return LLMError(f"{error} It is not sent again. {refusal}", status=error.status, cost=error.cost)


def _add_attempt_count(error: LLMError, attempts: int) -> LLMError:
    if attempts == 1:
        return error
    message = f"{error} Failed after {attempts} attempts."
    return LLMError(
        message,
        status=error.status,
        is_transient=error.is_transient,
        retry_seconds=error.retry_seconds,
        cost=error.cost,
    )


def _compute_jitter(prompt: str) -> float:
    return zlib.crc32(prompt.encode(errors="replace")) / 2**32
