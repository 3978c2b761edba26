"""httpx clients for LLM servers, with keep-alive and limits, and messages for failed calls, never with an API key."""

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from atoll.evaluation import ZERO_COST, Cost
from atoll.llm.base import LLMError
from atoll.llm.endpoint import Endpoint

_MAX_MESSAGE_CHARS = 300  # of the server's message, which may be a whole HTML page
_BUSY_STATUSES = (503, 529)  # the server refuses before it works on the request
_REMEDIES = {
    400: "Change the option or the prompt that the server rejects.",
    402: "Top up the account.",
    403: "Use an API key with access to this model.",
    404: "Check the name of the model and the address, which usually ends in /v1.",
    413: "Use shorter prompts.",
    429: "Use fewer workers, or wait.",
}


class LLMErrorFactory:
    """Makes the errors of one endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def make_status_error(
        self, status: int, server_message: str, retry_seconds: float | None, *, is_quota_exceeded: bool
    ) -> LLMError:
        """Describes an HTTP error; `is_quota_exceeded` means that the account is empty.

        A refusal costs no tokens. After another failure of the server the cost is unknown.
        """
        cost = Cost(calls=1) if status < 500 or status in _BUSY_STATUSES else None
        is_transient = (status in (408, 429) or status >= 500) and not is_quota_exceeded
        remedies = {**_REMEDIES, 401: f"Set a valid API key in {self._endpoint.key_variable}."}
        remedy = remedies.get(
            402 if is_quota_exceeded else status, "Try again later." if is_transient else _REMEDIES[400]
        )
        reason = f"status {status}, {server_message}"
        return self._make_error(
            reason, remedy, status=status, is_transient=is_transient, retry_seconds=retry_seconds, cost=cost
        )

    def make_timeout_error(self, seconds: float) -> LLMError:
        remedy = "Raise timeout_seconds, or use a faster server."
        return self._make_error(f"no response within {seconds:g} seconds", remedy, is_transient=True)

    def make_connection_error(self, reason: str, *, is_sent: bool) -> LLMError:
        """Describes a broken connection; `is_sent` says whether the server may have got the request."""
        remedy = "Check that the server runs and that the address is correct."
        return self._make_error(reason, remedy, is_transient=True, cost=None if is_sent else ZERO_COST)

    def make_invalid_response_error(self, reason: str) -> LLMError:
        return self._make_error(reason, "Check that the server supports OpenAI's chat completions API.")

    def make_too_large_error(self, reason: str) -> LLMError:
        return self._make_error(reason, "Set max_tokens.")

    def make_empty_response_error(self, finish_reason: object, usage: Cost) -> LLMError:
        """Describes a response without text, which the server bills all the same; `usage` is what it reports."""
        remedy = "Raise max_tokens." if finish_reason == "length" else "Change the prompt or the model."
        cost = Cost(0.0, usage.tokens_in, usage.tokens_out, usage.usd, 1) if usage.tokens_in else None
        return self._make_error(f"the response is empty, with finish reason {finish_reason!r}", remedy, cost=cost)

    def _make_error(
        self,
        reason: str,
        remedy: str,
        *,
        status: int | None = None,
        is_transient: bool = False,
        retry_seconds: float | None = None,
        cost: Cost | None = None,
    ) -> LLMError:
        prefix = f"LLM {self._endpoint.model} at {self._endpoint.base_url} did not respond"
        message = f"{self._sanitize(prefix)}: {self._sanitize(reason)}. {remedy}"
        return LLMError(message, status=status, is_transient=is_transient, retry_seconds=retry_seconds, cost=cost)

    def _sanitize(self, text: str) -> str:
        """Returns a text on one line, shortened, without the API key, which some servers repeat."""
        key_pattern = rf"\b{re.escape(self._endpoint.api_key)}\b"  # also removes short keys, as words
        line = re.sub(key_pattern, "***", self._endpoint.remove_key(" ".join(text.split()))).rstrip(".")
        return line if len(line) <= _MAX_MESSAGE_CHARS else f"{line[:_MAX_MESSAGE_CHARS]}..."


MAX_RESPONSE_BYTES = 4 * 2**20  # far above any useful response; protects memory from a broken server
_MAX_STREAM_BYTES = 16 * MAX_RESPONSE_BYTES  # a stream wraps each token in some 250 bytes of JSON
_CONNECT_SECONDS = 10.0
# A connection for each concurrent call; further calls wait.
_LIMITS = httpx2.Limits(max_connections=256, max_keepalive_connections=256, keepalive_expiry=30.0)


class ResponseTooLarge(httpx2.ReadError):
    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"the response has more than {max_bytes:,} bytes")


def make_client(endpoint: Endpoint, timeout_seconds: float) -> httpx2.Client:
    """Returns a client without a size limit: callers read the body in pieces and check it themselves."""
    return httpx2.Client(**_make_options(endpoint, timeout_seconds))


def make_async_client(endpoint: Endpoint, timeout_seconds: float) -> httpx2.AsyncClient:
    """Returns a client for an SDK; a longer response raises `ResponseTooLarge`."""
    hooks = {"response": [_limit_size]}
    return httpx2.AsyncClient(event_hooks=hooks, **_make_options(endpoint, timeout_seconds))


def _make_options(endpoint: Endpoint, timeout_seconds: float) -> dict[str, Any]:
    return {
        "timeout": httpx2.Timeout(timeout_seconds, connect=min(_CONNECT_SECONDS, timeout_seconds)),
        "limits": _LIMITS,
        "headers": {"Accept-Encoding": "identity"},  # a compressed response could exceed the limit when unpacked
        "trust_env": endpoint.may_use_proxy,
    }


async def _limit_size(response: httpx2.Response) -> None:
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    response.stream = _LimitedStream(response.stream, _MAX_STREAM_BYTES if is_stream else MAX_RESPONSE_BYTES)


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._stream, self._max_bytes = stream, max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > self._max_bytes:
                raise ResponseTooLarge(self._max_bytes)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
