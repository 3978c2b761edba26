"""One model behind one address, asked through pydantic-ai.

Importing this takes more than a second, so the others import it when the first prompt is asked.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx2
from pydantic_ai import exceptions, messages, models, output, settings

from atoll.evaluation import Cost
from atoll.llm import backends
from atoll.llm.complaints import Complaints
from atoll.llm.connections import MAX_ANSWER_BYTES
from atoll.llm.endpoint import Endpoint
from atoll.llm.llm import JSONPrompt, NoReply, Reply
from atoll.llm.sampling import Sampling
from atoll.llm.transport import TooLong, Transport

_CONNECT_SECONDS = 10.0
_PLAIN = models.ModelRequestParameters()


class Chat:
    """Asks one try at a time; belongs to the event loop on which it is first used."""

    def __init__(self, endpoint: Endpoint, sampling: Sampling, timeout_seconds: float, *, is_direct: bool) -> None:
        """Opens nothing yet.

        Args:
            endpoint: Which model, where.
            sampling: What is not left to the provider.
            timeout_seconds: How long one try may take.
            is_direct: The server is reached by plain HTTP, without TLS and proxies.
        """
        self._endpoint, self._seconds = endpoint, timeout_seconds
        self._settings, self._is_streamed = _settings(sampling), sampling.stream
        self._complaints = Complaints(endpoint)
        limits = httpx2.Timeout(timeout_seconds, connect=min(_CONNECT_SECONDS, timeout_seconds))
        self._http = httpx2.AsyncClient(transport=Transport() if is_direct else None, timeout=limits)
        self._model = backends.make(endpoint, self._http)
        self._can_enforce = bool(self._model.profile.get("supports_json_schema_output"))
        self._unpriced = set[str]()

    @property
    def can_enforce(self) -> bool:
        """Whether the provider holds a reply to a JSON schema."""
        return self._can_enforce

    async def ask(self, prompt: str) -> Reply:
        """Returns the reply to a prompt; the seconds are for the caller to measure.

        Raises:
            NoReply: There is none, and why.
        """
        try:
            async with asyncio.timeout(self._seconds):  # in all: some servers send blanks to keep a client waiting
                response = await self._request(prompt)
        except (TimeoutError, exceptions.ModelTimeoutError):
            raise self._complaints.silent(self._seconds) from None
        except exceptions.ModelHTTPError as error:
            raise self._refused(error) from None
        except exceptions.ModelConnectionError as error:
            raise self._lost(error) from None
        except httpx2.TransportError as error:  # in the middle of a stream
            raise self._lost(error) from None
        except (exceptions.AgentRunError, exceptions.UserError, IndexError) as error:
            why = "its list of choices is empty" if isinstance(error, IndexError) else str(error)
            raise self._complaints.foreign(why) from None
        except UnicodeEncodeError as error:
            raise self._complaints.unsendable(error) from None
        return self._reply(response)

    async def aclose(self) -> None:
        """Ends the connections."""
        await self._http.aclose()

    async def _request(self, prompt: str) -> messages.ModelResponse:
        # A plain str: what a prompt carries besides its text is not for the SDKs.
        request: list[messages.ModelMessage] = [messages.ModelRequest(parts=[messages.UserPromptPart(str(prompt))])]
        if isinstance(prompt, JSONPrompt) and self._can_enforce:
            try:
                return await self._model.request(request, self._settings, _enforcing(prompt.schema))
            except exceptions.ModelHTTPError as error:
                if error.status_code not in (400, 422):
                    raise
                self._can_enforce = False  # the schema stands in the prompt too, so it is asked for without force
        if self._is_streamed:
            return await self._streamed(request)
        return await self._model.request(request, self._settings, _PLAIN)

    async def _streamed(self, request: list[messages.ModelMessage]) -> messages.ModelResponse:
        try:
            async with self._model.request_stream(request, self._settings, _PLAIN) as streamed:
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
            raise self._complaints.empty(response.finish_reason)
        if len(text) > MAX_ANSWER_BYTES:
            raise self._complaints.too_long(f"it has {len(text):,} characters")
        usage, model = response.usage, response.model_name or self._endpoint.model
        tokens = {"tokens_in": usage.input_tokens, "tokens_out": usage.output_tokens}
        without = self._endpoint.without_key
        return Reply(without(text), without(model), Cost(**tokens, usd=self._usd(response, model)))

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
        body = error.body
        said = body.get("message") if isinstance(body, Mapping) else body
        is_spent = isinstance(error, exceptions.ModelQuotaExceededError)
        return self._complaints.refused(
            error.status_code, str(said or error.message), error.retry_after, is_spent=is_spent
        )

    def _lost(self, error: BaseException) -> NoReply:
        root = _root(error)
        return (self._complaints.too_long if isinstance(root, TooLong) else self._complaints.lost)(str(root))


def _settings(sampling: Sampling) -> settings.ModelSettings:
    """Returns what is not left to the provider; its SDK repeats nothing, because we do."""
    found = settings.ModelSettings(max_retries=0)
    if sampling.temperature is not None:
        found["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        found["top_p"] = sampling.top_p
    if sampling.top_k is not None:
        found["top_k"] = sampling.top_k
    if sampling.seed is not None:
        found["seed"] = sampling.seed
    if sampling.max_tokens is not None:
        found["max_tokens"] = sampling.max_tokens
    if sampling.thinking is not None:
        found["thinking"] = False if sampling.thinking == "off" else sampling.thinking
    return found


def _enforcing(schema: Mapping[str, Any]) -> models.ModelRequestParameters:
    wanted = output.OutputObjectDefinition(dict(schema), name="answer", strict=False)
    return models.ModelRequestParameters(output_mode="native", output_object=wanted)


def _root(error: BaseException) -> BaseException:
    """Returns what was said first: the errors above it only say that there is one."""
    while error.__cause__ is not None and str(error.__cause__):
        error = error.__cause__
    return error
