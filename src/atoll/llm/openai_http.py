"""Client for OpenAI's chat completions API without an SDK, for servers on your own network.

pydantic-ai and the OpenAI SDK take 2 ms of CPU per call and more than a second to import. `pydantic_ai_chat` uses them
where providers differ: hosted services, streams, reasoning effort.
"""

import email.utils
import json
import math
import os
import time
from collections.abc import Mapping
from typing import Any

import httpx2

from atoll.evaluation import Cost
from atoll.llm import http_client
from atoll.llm.base import LLMError, Response, get_messages, get_schema, shift_temperature
from atoll.llm.budget import clean_usd
from atoll.llm.endpoint import Endpoint, SamplingOptions
from atoll.llm.http_client import LLMErrorFactory

_THINKING_TAGS = ("<think>", "</think>")
_MAX_TOKENS = 10**12  # that a server can report; larger integers do not fit in a float
_MAX_TEMPERATURE = 1.5  # of a prompt that raises it
_SUPPORTED_OPTIONS = ("temperature", "top_p", "top_k", "seed", "max_tokens")


class OpenAIHTTPChat:
    """Makes one attempt at a time, from any thread of the process in which it was made."""

    def __init__(self, endpoint: Endpoint, sampling: SamplingOptions, timeout_seconds: float) -> None:
        self._endpoint, self._timeout_seconds = endpoint, timeout_seconds
        self._errors = LLMErrorFactory(endpoint)
        self._http, self._process_id = http_client.make_client(endpoint, timeout_seconds), os.getpid()
        self._http.headers.update({"Authorization": f"Bearer {endpoint.api_key}", "Content-Type": "application/json"})
        self._url = httpx2.URL(f"{endpoint.base_url}/chat/completions")
        options = {name: getattr(sampling, name) for name in _SUPPORTED_OPTIONS}
        self._options = {name: value for name, value in options.items() if value is not None}
        self._supports_json_schema = True

    @property
    def supports_json_schema(self) -> bool:
        """True until the server refuses a JSON schema."""
        return self._supports_json_schema

    @property
    def belongs_to_process(self) -> bool:
        """True if it was made in this process. A forked child needs its own connections."""
        return self._process_id == os.getpid()

    def ask(self, prompt: str) -> Response:
        """Returns the response to a prompt. The caller measures the seconds.

        Raises:
            LLMError: The attempt failed; the message says why.
        """
        try:
            response, body = self._request(prompt, time.monotonic() + self._timeout_seconds)
        except (httpx2.ConnectTimeout, httpx2.PoolTimeout):
            raise self._errors.make_connection_error("no connection in time", is_sent=False) from None
        except (httpx2.ConnectError, httpx2.InvalidURL) as error:
            raise self._errors.make_connection_error(str(error), is_sent=False) from None
        except httpx2.TimeoutException:
            raise self._errors.make_timeout_error(self._timeout_seconds) from None
        except http_client.ResponseTooLarge as error:
            raise self._errors.make_too_large_error(str(error)) from None
        except httpx2.HTTPError as error:
            raise self._errors.make_connection_error(str(error), is_sent=True) from None
        if not response.is_success:
            raise self._make_status_error(response, body)
        return self._make_response(body)

    def close(self) -> None:
        """Closes the connections. Those of a parent process stay open: its threads may use them."""
        if self.belongs_to_process:
            self._http.close()

    def _request(self, prompt: str, deadline: float) -> tuple[httpx2.Response, bytes]:
        schema = get_schema(prompt)
        if schema is None or not self._supports_json_schema:
            return self._post(prompt, deadline, {})
        json_schema = {"name": "answer", "schema": schema, "strict": False}
        response_format = {"type": "json_schema", "json_schema": json_schema}
        response, body = self._post(prompt, deadline, {"response_format": response_format})
        if response.status_code in (400, 422):
            self._supports_json_schema = False  # the prompt contains the schema too, so it is enough alone
        return response, body

    def _post(self, prompt: str, deadline: float, extra_fields: Mapping[str, Any]) -> tuple[httpx2.Response, bytes]:
        messages = [{"role": role, "content": text} for role, text in get_messages(prompt)]
        request = {"messages": messages, "model": self._endpoint.model, "stream": False}
        options = {**self._options, **extra_fields}
        if "temperature" in options:
            options["temperature"] = shift_temperature(options["temperature"], prompt, _MAX_TEMPERATURE)
        content = json.dumps({**request, **options}, ensure_ascii=False).encode(errors="replace")
        with self._http.stream("POST", self._url, content=content) as response:
            return response, _read_body(response, deadline)

    def _make_response(self, body: bytes) -> Response:
        try:
            data = json.loads(body.decode(json.detect_encoding(body), "replace"))
        except (ValueError, RecursionError) as error:
            raise self._errors.make_invalid_response_error(f"Failed to decode response as JSON: {error}") from None
        try:
            choice = data["choices"][0]
            message, finish_reason = choice["message"], choice.get("finish_reason")
            content = message.get("content")
        except IndexError:
            raise self._errors.make_invalid_response_error("the list of choices is empty") from None
        except (KeyError, TypeError, AttributeError):
            raise self._errors.make_invalid_response_error("the response is not the expected JSON data") from None
        text, cost = _strip_thinking(content) if isinstance(content, str) else "", _read_usage(data.get("usage"))
        if not text:
            reason = "content_filter" if message.get("refusal") else finish_reason
            raise self._errors.make_empty_response_error(reason, cost)
        model = data.get("model")
        model = model if isinstance(model, str) and model else self._endpoint.model
        remove_key = self._endpoint.remove_key
        return Response(remove_key(text), remove_key(model), cost)

    def _make_status_error(self, response: httpx2.Response, body: bytes) -> LLMError:
        text = body.decode(errors="replace")
        message, code = text, None
        try:
            error = json.loads(text)["error"]
            message, code = error["message"], error.get("code")
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            pass  # another format: quote all of it
        return self._errors.make_status_error(
            response.status_code,
            str(message or text),
            _parse_retry_after(response.headers),
            is_quota_exceeded=code == "insufficient_quota",
        )


def _read_body(response: httpx2.Response, deadline: float) -> bytes:
    """Reads a body. Some servers send blanks to keep a client waiting, so the deadline is checked for each piece."""
    response.request.extensions["timeout"]["read"] = max(deadline - time.monotonic(), 0.001)
    parts: list[bytes] = []
    size = 0
    for part in response.iter_bytes():
        parts.append(part)
        size += len(part)
        if size > http_client.MAX_RESPONSE_BYTES:
            raise http_client.ResponseTooLarge(http_client.MAX_RESPONSE_BYTES)
        if time.monotonic() > deadline:
            raise httpx2.ReadTimeout("the response is not complete")
    return b"".join(parts)


def _strip_thinking(content: str) -> str:
    """Returns a response without the reasoning that some servers leave in it."""
    opening, closing = _THINKING_TAGS
    before, _, after = content.partition(opening)
    is_code = "```" in before or before.endswith(("'", '"', "`"))
    return before + after.partition(closing)[2] if closing in after and not is_code else content


def _read_usage(usage: object) -> Cost:
    """Returns the tokens, and the dollars that some gateways report."""
    usage_fields = usage if isinstance(usage, Mapping) else {}
    tokens = (_parse_count(usage_fields.get("prompt_tokens")), _parse_count(usage_fields.get("completion_tokens")))
    return Cost(0.0, *tokens, clean_usd(usage_fields.get("cost")))


def _parse_count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return max(0, min(value, _MAX_TOKENS))


def _parse_retry_after(headers: httpx2.Headers) -> float | None:
    """Returns the seconds that the server asks its clients to wait, if any."""
    milliseconds, retry_after = headers.get("retry-after-ms"), headers.get("retry-after")
    if milliseconds is not None:
        seconds = _parse_seconds(milliseconds)
        return None if seconds is None else seconds / 1000.0
    if retry_after is None:
        return None
    if (seconds := _parse_seconds(retry_after)) is not None:
        return seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _parse_seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
