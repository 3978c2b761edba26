"""One model behind one address, asked through pydantic-ai.

Importing this takes more than a second, so the others import it when the first prompt is asked.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import httpx2
from pydantic_ai import exceptions, messages, models, output, settings

from atoll.evaluation import Cost
from atoll.llm import backends
from atoll.llm.endpoint import Endpoint
from atoll.llm.llm import JSONPrompt, NoReply, Reply
from atoll.llm.transport import MAX_ANSWER_BYTES, TooLong, Transport

_CONNECT_SECONDS = 10.0
_MAX_SHOWN = 300  # characters of what the server said: a whole HTML page helps nobody

_PLAIN = models.ModelRequestParameters()
_CURES = {
    400: "Change what the server objects to.",
    402: "Top up the account.",
    403: "Use a key that may ask this model.",
    404: "Check the name of the model and the address, which mostly ends in /v1.",
    413: "Use shorter prompts.",
    429: "Use fewer workers, or wait.",
}
_FOREIGN = "See that the server speaks OpenAI's chat completions."


class Chat:
    """Asks one try at a time; belongs to the event loop on which it is first used."""

    def __init__(self, endpoint: Endpoint, timeout_seconds: float, *, is_direct: bool) -> None:
        """Opens nothing yet.

        Args:
            endpoint: Which model, where.
            timeout_seconds: How long one try may take.
            is_direct: The server is reached by plain HTTP, without TLS and proxies.
        """
        self._endpoint, self._seconds = endpoint, timeout_seconds
        limits = httpx2.Timeout(timeout_seconds, connect=min(_CONNECT_SECONDS, timeout_seconds))
        self.http = httpx2.AsyncClient(transport=Transport() if is_direct else None, timeout=limits)
        self._model = backends.make(endpoint, self.http)
        self._can_enforce = bool(self._model.profile.get("supports_json_schema_output"))
        self._unpriced = set[str]()

    @property
    def can_enforce(self) -> bool:
        """Whether the provider holds a reply to a JSON schema."""
        return self._can_enforce

    async def ask(self, prompt: str, options: settings.ModelSettings, *, stream: bool = False) -> Reply:
        """Returns the reply to a prompt; the seconds are for the caller to measure.

        Raises:
            NoReply: There is none, and why.
        """
        try:
            async with asyncio.timeout(self._seconds):  # in all: some servers send blanks to keep a client waiting
                response = await self._request(prompt, options, stream)
        except (TimeoutError, exceptions.ModelTimeoutError):
            cure = "Raise timeout_seconds, or ask a faster server."
            raise self._no_reply(f"nothing came within {self._seconds:g} seconds", cure, is_transient=True) from None
        except exceptions.ModelHTTPError as error:
            raise self._refused(error) from None
        except exceptions.ModelConnectionError as error:
            raise self._lost(error) from None
        except httpx2.TransportError as error:  # in the middle of a stream
            raise self._lost(error) from None
        except (exceptions.AgentRunError, exceptions.UserError, IndexError) as error:
            why = "its list of choices is empty" if isinstance(error, IndexError) else str(error)
            raise self._no_reply(why, _FOREIGN) from None
        except UnicodeEncodeError as error:
            cure = "Leave out half characters (surrogates)."
            raise self._no_reply(f"the prompt is no text that can be sent, {error.reason}", cure) from None
        return self._reply(response)

    async def _request(self, prompt: str, options: settings.ModelSettings, stream: bool) -> messages.ModelResponse:
        # A plain str: what a prompt carries besides its text is not for the SDKs.
        request: list[messages.ModelMessage] = [messages.ModelRequest(parts=[messages.UserPromptPart(str(prompt))])]
        if isinstance(prompt, JSONPrompt) and self._can_enforce:
            try:
                return await self._model.request(request, options, _enforcing(prompt.schema))
            except exceptions.ModelHTTPError as error:
                if error.status_code not in (400, 422):
                    raise
                self._can_enforce = False  # the schema stands in the prompt too, so it is asked for without force
        return await (self._streamed(request, options) if stream else self._model.request(request, options, _PLAIN))

    async def _streamed(
        self, request: list[messages.ModelMessage], options: settings.ModelSettings
    ) -> messages.ModelResponse:
        try:
            async with self._model.request_stream(request, options, _PLAIN) as streamed:
                async for _ in streamed:
                    pass
        except exceptions.ModelAPIError as error:
            if type(error) is not exceptions.ModelAPIError:
                raise
            raise httpx2.ReadError("the stream ended before the reply did") from None
        return streamed.get()

    def _reply(self, response: messages.ModelResponse) -> Reply:
        text = response.text
        if not text:
            cure = "Raise max_tokens." if response.finish_reason == "length" else "Change the prompt, or the model."
            raise self._no_reply(f"its text is empty, and it ended for {response.finish_reason!r}", cure)
        if len(text) > MAX_ANSWER_BYTES:
            raise self._no_reply(f"it has {len(text):,} characters", "Set max_tokens.")
        usage, model = response.usage, response.model_name or self._endpoint.model
        tokens = {"tokens_in": usage.input_tokens, "tokens_out": usage.output_tokens}
        return Reply(text, model, Cost(**tokens, usd=self._usd(response, model)))

    def _usd(self, response: messages.ModelResponse, model: str) -> float:
        if response.usage.cost is not None:
            return float(response.usage.cost)  # some gateways tell
        if model in self._unpriced:
            return 0.0  # a search in vain takes 0.1 to 0.5 ms, as much as a third of the call
        try:
            return float(response.cost().total_price)
        except LookupError:
            self._unpriced.add(model)
        except ValueError:
            pass  # the server did not say how many tokens it took
        return 0.0

    def _refused(self, error: exceptions.ModelHTTPError) -> NoReply:
        body, status = error.body, error.status_code
        said = body.get("message") if isinstance(body, Mapping) else body
        is_spent = isinstance(error, exceptions.ModelQuotaExceededError)
        is_transient = (status in (408, 429) or status >= 500) and not is_spent
        cures = {**_CURES, 401: f"Set a valid key in {self._endpoint.key_variable}."}
        cure = cures.get(402 if is_spent else status, "Ask again later." if is_transient else _CURES[400])
        why = f"status {status}, {said or error.message}"
        return self._no_reply(why, cure, status=status, is_transient=is_transient, retry_seconds=error.retry_after)

    def _lost(self, error: BaseException) -> NoReply:
        root = _root(error)
        if isinstance(root, TooLong):
            return self._no_reply(str(root), "Set max_tokens.")
        return self._no_reply(str(root), "See that the server runs and that the address is right.", is_transient=True)

    def _no_reply(
        self,
        why: str,
        cure: str,
        *,
        status: int | None = None,
        is_transient: bool = False,
        retry_seconds: float | None = None,
    ) -> NoReply:
        where = f"Model {self._endpoint.model} at {self._endpoint.base_url} gave no reply"
        message = f"{self._shown(where)}: {self._shown(why)}. {cure}"
        return NoReply(message, status=status, is_transient=is_transient, retry_seconds=retry_seconds)

    def _shown(self, text: str) -> str:
        """Returns a text on one line, not too long, without the key, which some servers repeat."""
        key = self._endpoint.api_key
        pattern = re.escape(key) if len(key) >= 8 else rf"\b{re.escape(key)}\b"  # "x" is a key too, for some
        line = re.sub(pattern, "***", " ".join(text.split())).rstrip(".")
        return line if len(line) <= _MAX_SHOWN else f"{line[:_MAX_SHOWN]}..."


def _enforcing(schema: Mapping[str, Any]) -> models.ModelRequestParameters:
    wanted = output.OutputObjectDefinition(dict(schema), name="answer", strict=False)
    return models.ModelRequestParameters(output_mode="native", output_object=wanted)


def _root(error: BaseException) -> BaseException:
    """Returns what was said first: the errors above it only say that there is one."""
    while error.__cause__ is not None and str(error.__cause__):
        error = error.__cause__
    return error
