"""OpenAI's chat completions by plain HTTP, without an SDK: for servers of one's own, where a call should cost little.

pydantic-ai and the SDK below it take 2 ms of CPU for a call and more than a second to import. They stay for whatever
differs from provider to provider: TLS and proxies, streams, how hard a model thinks (see `chat.Chat`).
"""

import email.utils
import json
import math
import os
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from atoll.evaluation import Cost
from atoll.llm import async_http, budget, sync_http
from atoll.llm.base import JSONPrompt, LLMError, Response
from atoll.llm.endpoint import Endpoint, SamplingOptions
from atoll.llm.error_messages import LLMErrorFactory

_CONNECT_SECONDS = 10.0
_THINKING_TAGS = ("<think>", "</think>")
_SUPPORTED_OPTIONS = ("temperature", "top_p", "top_k", "seed", "max_tokens")


class OpenAIHTTPChat:
    """Asks one try at a time, from any thread of the process in which it was made."""

    def __init__(self, endpoint: Endpoint, sampling: SamplingOptions, timeout_seconds: float) -> None:
        """Opens nothing yet."""
        self._endpoint, self._timeout_seconds = endpoint, timeout_seconds
        self._errors = LLMErrorFactory(endpoint)
        self._connections, self._process_id = sync_http.SyncConnectionPool(), os.getpid()
        url = urlsplit(f"{endpoint.base_url}/chat/completions")
        self._host, self._port = url.hostname or "", url.port or 80
        self._request_head = (
            f"POST {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\nAccept: application/json\r\n"
            f"Content-Type: application/json\r\nAuthorization: Bearer {endpoint.api_key}\r\n"
            "Accept-Encoding: identity\r\nUser-Agent: atoll\r\n"
        )
        self._prices: dict[str, budget.Price | None] = {}
        options = {name: getattr(sampling, name) for name in _SUPPORTED_OPTIONS}
        self._options = {name: value for name, value in options.items() if value is not None}
        self._supports_json_schema = True

    @property
    def supports_json_schema(self) -> bool:
        """Whether the server holds a reply to a JSON schema, as far as is known."""
        return self._supports_json_schema

    @property
    def belongs_to_process(self) -> bool:
        """Whether it was made in this process: a forked child needs connections of its own."""
        return self._process_id == os.getpid()

    def ask(self, prompt: str) -> Response:
        """Returns the reply to a prompt; the seconds are for the caller to measure.

        Raises:
            NoReply: There is none, and why.
        """
        try:
            # In all: some servers send blanks to keep a client waiting.
            response = self._request(prompt, time.monotonic() + self._timeout_seconds)
        except async_http.HTTPTimeout:
            raise self._errors.make_timeout_error(self._timeout_seconds) from None
        except async_http.ResponseTooLarge as error:
            raise self._errors.make_too_large_error(str(error)) from None
        except async_http.HTTPError as error:
            raise self._errors.make_connection_error(str(error)) from None
        except UnicodeEncodeError as error:
            raise self._errors.make_encoding_error(error) from None
        if not 200 <= response.status < 300:
            raise self._make_status_error(response)
        return self._make_response(response)

    def close(self) -> None:
        """Ends the connections."""
        self._connections.close()

    def _request(self, prompt: str, deadline: float) -> async_http.HTTPResponse:
        if isinstance(prompt, JSONPrompt) and self._supports_json_schema:
            json_schema = {"name": "answer", "schema": prompt.schema, "strict": False}
            response = self._post(
                prompt, deadline, {"response_format": {"type": "json_schema", "json_schema": json_schema}}
            )
            if response.status not in (400, 422):
                return response
            self._supports_json_schema = False  # the schema stands in the prompt too, so it is asked for without force
        return self._post(prompt, deadline, {})

    def _post(self, prompt: str, deadline: float, extra_fields: Mapping[str, Any]) -> async_http.HTTPResponse:
        request = {"messages": [{"role": "user", "content": prompt}], "model": self._endpoint.model, "stream": False}
        body = json.dumps({**request, **self._options, **extra_fields}, ensure_ascii=False).encode()
        head = f"{self._request_head}Content-Length: {len(body)}\r\n\r\n"
        request_message = async_http.HTTPRequest(self._host, self._port, head.encode() + body)
        return self._connections.exchange(
            request_message, connect_seconds=min(_CONNECT_SECONDS, self._timeout_seconds), deadline=deadline
        )

    def _make_response(self, http_response: async_http.HTTPResponse) -> Response:
        try:
            data = json.loads(http_response.body)
        except (ValueError, RecursionError) as error:
            raise self._errors.make_invalid_response_error(f"Failed to decode response as JSON: {error}") from None
        try:
            choice = data["choices"][0]
            message, finish_reason = choice["message"], choice.get("finish_reason")
            content = message.get("content")
        except IndexError:
            raise self._errors.make_invalid_response_error("its list of choices is empty") from None
        except (KeyError, TypeError, AttributeError):
            raise self._errors.make_invalid_response_error("it is not the expected JSON data") from None
        text = _strip_thinking(content) if isinstance(content, str) else ""
        if not text:
            raise self._errors.make_empty_response_error("content_filter" if message.get("refusal") else finish_reason)
        model = data.get("model")
        model = model if isinstance(model, str) and model else self._endpoint.model
        remove_key = self._endpoint.remove_key
        return Response(remove_key(text), remove_key(model), self._make_cost(model, data.get("usage")))

    def _make_cost(self, model: str, usage: object) -> Cost:
        usage_fields = usage if isinstance(usage, Mapping) else {}
        tokens_in, tokens_out = (
            _parse_count(usage_fields.get("prompt_tokens")),
            _parse_count(usage_fields.get("completion_tokens")),
        )
        if isinstance(usd := usage_fields.get("cost"), float):
            return Cost(tokens_in=tokens_in, tokens_out=tokens_out, usd=float(usd))  # some gateways tell
        if model not in self._prices:
            self._prices[model] = budget.find_price(self._endpoint.service, model, self._endpoint.base_url)
        model_price = self._prices[model]
        return Cost(
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            usd=model_price.compute_usd(tokens_in, tokens_out) if model_price else 0.0,
        )

    def _make_status_error(self, http_response: async_http.HTTPResponse) -> LLMError:
        text = http_response.body.decode(errors="replace")
        message, code = text, None
        try:
            error = json.loads(text)["error"]
            message, code = error["message"], error.get("code")
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            pass  # it speaks otherwise, and is quoted as it is
        is_quota_exceeded = code == "insufficient_quota"
        return self._errors.make_status_error(
            http_response.status,
            str(message or text),
            _parse_retry_after(http_response),
            is_quota_exceeded=is_quota_exceeded,
        )


def _strip_thinking(content: str) -> str:
    """Returns a reply without what a model thought first, which some servers leave in it."""
    opening, closing = _THINKING_TAGS
    before, _, after = content.partition(opening)
    return before + after.partition(closing)[2] if closing in after else content


def _parse_count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _parse_retry_after(http_response: async_http.HTTPResponse) -> float | None:
    """Returns how long the server wants to be left alone, if it says so."""
    milliseconds, retry_after = http_response.get_header(b"retry-after-ms"), http_response.get_header(b"retry-after")
    if milliseconds is not None:
        seconds = _parse_seconds(milliseconds)
        return None if seconds is None else seconds / 1000.0
    if retry_after is None:
        return None
    if (seconds := _parse_seconds(retry_after)) is not None:
        return seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return None


def _parse_seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
