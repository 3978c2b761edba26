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
from atoll.llm import connections, price, wires
from atoll.llm.complaints import Complaints
from atoll.llm.endpoint import Endpoint
from atoll.llm.llm import JSONPrompt, NoReply, Reply
from atoll.llm.sampling import Sampling

_CONNECT_SECONDS = 10.0
_THOUGHT = ("<think>", "</think>")
_CAN_SEND = ("temperature", "top_p", "top_k", "seed", "max_tokens")


class Completions:
    """Asks one try at a time, from any thread of the process in which it was made."""

    def __init__(self, endpoint: Endpoint, sampling: Sampling, timeout_seconds: float) -> None:
        """Opens nothing yet."""
        self._endpoint, self._seconds = endpoint, timeout_seconds
        self._complaints = Complaints(endpoint)
        self._wires, self._process = wires.Wires(), os.getpid()
        url = urlsplit(f"{endpoint.base_url}/chat/completions")
        self._host, self._port = url.hostname or "", url.port or 80
        self._head = (
            f"POST {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\nAccept: application/json\r\n"
            f"Content-Type: application/json\r\nAuthorization: Bearer {endpoint.api_key}\r\n"
            "Accept-Encoding: identity\r\nUser-Agent: atoll\r\n"
        )
        self._prices: dict[str, price.Price | None] = {}
        options = {name: getattr(sampling, name) for name in _CAN_SEND}
        self._options = {name: value for name, value in options.items() if value is not None}
        self._can_enforce = True

    @property
    def can_enforce(self) -> bool:
        """Whether the server holds a reply to a JSON schema, as far as is known."""
        return self._can_enforce

    @property
    def is_ours(self) -> bool:
        """Whether it was made in this process: a forked child needs connections of its own."""
        return self._process == os.getpid()

    def ask(self, prompt: str) -> Reply:
        """Returns the reply to a prompt; the seconds are for the caller to measure.

        Raises:
            NoReply: There is none, and why.
        """
        try:
            # In all: some servers send blanks to keep a client waiting.
            answer = self._request(prompt, time.monotonic() + self._seconds)
        except connections.Silent:
            raise self._complaints.silent(self._seconds) from None
        except connections.TooLong as error:
            raise self._complaints.too_long(str(error)) from None
        except connections.Lost as error:
            raise self._complaints.lost(str(error)) from None
        except UnicodeEncodeError as error:
            raise self._complaints.unsendable(error) from None
        if not 200 <= answer.status < 300:
            raise self._refused(answer)
        return self._reply(answer)

    def close(self) -> None:
        """Ends the connections."""
        self._wires.close()

    def _request(self, prompt: str, deadline: float) -> connections.Answer:
        if isinstance(prompt, JSONPrompt) and self._can_enforce:
            wanted = {"name": "answer", "schema": prompt.schema, "strict": False}
            answer = self._post(prompt, deadline, {"response_format": {"type": "json_schema", "json_schema": wanted}})
            if answer.status not in (400, 422):
                return answer
            self._can_enforce = False  # the schema stands in the prompt too, so it is asked for without force
        return self._post(prompt, deadline, {})

    def _post(self, prompt: str, deadline: float, more: Mapping[str, Any]) -> connections.Answer:
        request = {"messages": [{"role": "user", "content": prompt}], "model": self._endpoint.model, "stream": False}
        body = json.dumps({**request, **self._options, **more}, ensure_ascii=False).encode()
        head = f"{self._head}Content-Length: {len(body)}\r\n\r\n"
        sent = connections.Request(self._host, self._port, head.encode() + body)
        return self._wires.exchange(sent, connect_seconds=min(_CONNECT_SECONDS, self._seconds), deadline=deadline)

    def _reply(self, answer: connections.Answer) -> Reply:
        try:
            said = json.loads(answer.body)
        except (ValueError, RecursionError) as error:
            raise self._complaints.foreign(f"Failed to decode response as JSON: {error}") from None
        try:
            choice = said["choices"][0]
            message, ended = choice["message"], choice.get("finish_reason")
            content = message.get("content")
        except IndexError:
            raise self._complaints.foreign("its list of choices is empty") from None
        except (KeyError, TypeError, AttributeError):
            raise self._complaints.foreign("it is not the expected JSON data") from None
        text = _said_aloud(content) if isinstance(content, str) else ""
        if not text:
            raise self._complaints.empty("content_filter" if message.get("refusal") else ended)
        model = said.get("model")
        model = model if isinstance(model, str) and model else self._endpoint.model
        without = self._endpoint.without_key
        return Reply(without(text), without(model), self._cost(model, said.get("usage")))

    def _cost(self, model: str, usage: object) -> Cost:
        told = usage if isinstance(usage, Mapping) else {}
        tokens_in, tokens_out = _count(told.get("prompt_tokens")), _count(told.get("completion_tokens"))
        if isinstance(usd := told.get("cost"), float):
            return Cost(tokens_in=tokens_in, tokens_out=tokens_out, usd=float(usd))  # some gateways tell
        if model not in self._prices:
            self._prices[model] = price.find(self._endpoint.service, model, self._endpoint.base_url)
        known = self._prices[model]
        return Cost(tokens_in=tokens_in, tokens_out=tokens_out, usd=known.usd(tokens_in, tokens_out) if known else 0.0)

    def _refused(self, answer: connections.Answer) -> NoReply:
        text = answer.body.decode(errors="replace")
        said, code = text, None
        try:
            error = json.loads(text)["error"]
            said, code = error["message"], error.get("code")
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            pass  # it speaks otherwise, and is quoted as it is
        is_spent = code == "insufficient_quota"
        return self._complaints.refused(answer.status, str(said or text), _rest_seconds(answer), is_spent=is_spent)


def _said_aloud(content: str) -> str:
    """Returns a reply without what a model thought first, which some servers leave in it."""
    opening, closing = _THOUGHT
    before, _, rest = content.partition(opening)
    return before + rest.partition(closing)[2] if closing in rest else content


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _rest_seconds(answer: connections.Answer) -> float | None:
    """Returns how long the server wants to be left alone, if it says so."""
    milliseconds, when = answer.header(b"retry-after-ms"), answer.header(b"retry-after")
    if milliseconds is not None:
        seconds = _number(milliseconds)
        return None if seconds is None else seconds / 1000.0
    if when is None:
        return None
    if (seconds := _number(when)) is not None:
        return seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(when).timestamp() - time.time())
    except ValueError:
        return None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
