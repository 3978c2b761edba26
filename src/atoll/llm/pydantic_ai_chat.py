"""Client for one LLM through pydantic-ai, and its models. Importing this module takes more than a second."""

import asyncio
import os
from collections.abc import Mapping
from concurrent.futures import Future
from threading import Thread, current_thread
from typing import Any

import httpx2
import openai
from pydantic_ai import exceptions, messages, models, output, settings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers import Provider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from atoll import errors
from atoll.candidate import clean_text
from atoll.evaluation import Cost
from atoll.llm import http_client
from atoll.llm.base import LLMError, Response, get_messages, get_schema, shift_temperature
from atoll.llm.budget import clean_usd
from atoll.llm.endpoint import SERVICES, Endpoint, SamplingOptions, shift_effort
from atoll.llm.http_client import LLMErrorFactory

# Compatible servers support `max_tokens`, and only some its successor. A stream without a finish reason is incomplete.
_COMPATIBLE_PROFILE = OpenAIModelProfile(
    openai_chat_supports_max_completion_tokens=False, openai_chat_streaming_requires_finish_reason=True
)


def make_model(endpoint: Endpoint, http_client: httpx2.AsyncClient) -> models.Model[Any]:
    """Returns the model of an endpoint.

    Raises:
        SetupError: The service needs a package that is not installed, or rejects the name of the model.
    """
    extra = SERVICES[endpoint.service].extra
    try:
        match endpoint.service:
            case "anthropic":
                return _make_anthropic(endpoint, http_client)
            case "google":
                return _make_google(endpoint, http_client)
            case "openrouter":
                return _make_openrouter(endpoint, http_client)
            case _:
                return _make_openai_chat(endpoint, http_client)
    except exceptions.UserError as error:
        raise errors.SetupError(f"{endpoint.service}:{endpoint.model} is not supported: {error}") from error
    except ImportError as error:
        if not extra:
            raise
        raise errors.SetupError(
            f"{endpoint.service} models need a package that is not installed. Run pip install 'atoll[{extra}]'."
        ) from error


def _make_anthropic(endpoint: Endpoint, http_client: httpx2.AsyncClient) -> models.Model[Any]:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(api_key=endpoint.api_key, base_url=endpoint.base_url, http_client=http_client)
    return AnthropicModel(endpoint.model, provider=provider)


def _make_google(endpoint: Endpoint, http_client: httpx2.AsyncClient) -> models.Model[Any]:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    provider = GoogleProvider(api_key=endpoint.api_key, base_url=endpoint.base_url, http_client=http_client)
    return GoogleModel(endpoint.model, provider=provider)


def _make_openrouter(endpoint: Endpoint, http_client: httpx2.AsyncClient) -> models.Model[Any]:
    from pydantic_ai.models.openrouter import OpenRouterModel
    from pydantic_ai.providers.openrouter import OpenRouterProvider

    return OpenRouterModel(
        endpoint.model, provider=OpenRouterProvider(openai_client=_make_openai_client(endpoint, http_client))
    )


def _make_openai_chat(endpoint: Endpoint, http_client: httpx2.AsyncClient) -> models.Model[Any]:
    client = _make_openai_client(endpoint, http_client)
    # Both providers are named "openai", so that genai-prices finds the prices of OpenAI's models behind a gateway.
    provider: Provider[openai.AsyncOpenAI] = (
        OpenAIProvider(openai_client=client)
        if endpoint.service == "openai" and endpoint.is_public
        else OpenAICompatibleProvider("openai", openai_client=client, profile=_COMPATIBLE_PROFILE)
    )
    return OpenAIChatModel(endpoint.model, provider=provider)


def _make_openai_client(endpoint: Endpoint, http_client: httpx2.AsyncClient) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url=endpoint.base_url,
        api_key=endpoint.api_key,
        http_client=http_client,
        timeout=http_client.timeout,
        max_retries=0,
    )


_CLOSE_SECONDS = 1.0
_MAX_TEMPERATURE = 1.0  # of a prompt that raises it; some services refuse more
_PLAIN_PARAMETERS = models.ModelRequestParameters()


class PydanticAIChat:
    """Makes one attempt at a time, from any thread of the process in which it was made."""

    def __init__(self, endpoint: Endpoint, sampling: SamplingOptions, timeout_seconds: float) -> None:
        self._endpoint, self._timeout_seconds = endpoint, timeout_seconds
        self._settings, self._is_streamed = _make_settings(sampling), sampling.stream
        self._effort = None if sampling.thinking == "off" else sampling.thinking
        self._errors = LLMErrorFactory(endpoint)
        self._http, self._process_id = http_client.make_async_client(endpoint, timeout_seconds), os.getpid()
        self._model = make_model(endpoint, self._http)
        self._supports_json_schema = bool(self._model.profile.get("supports_json_schema_output"))
        self._loop = Future[asyncio.AbstractEventLoop]()
        self._closing = asyncio.Event()
        self._thread = Thread(target=self._run_loop, name="llm-loop", daemon=True)
        self._thread.start()

    @property
    def supports_json_schema(self) -> bool:
        return self._supports_json_schema

    @property
    def belongs_to_process(self) -> bool:
        return self._process_id == os.getpid()

    def ask(self, prompt: str) -> Response:
        """Returns the response to a prompt. The caller measures the seconds.

        Raises:
            LLMError: The attempt failed; the message says why.
        """
        future = asyncio.run_coroutine_threadsafe(self._ask(prompt), self._loop.result())
        try:
            return future.result()
        finally:
            future.cancel()  # ends the request of a caller that was interrupted

    def close(self) -> None:
        """Closes the connections and ends the event loop; a forked child leaves both to its parent."""
        if self.belongs_to_process and self._thread.is_alive():
            self._loop.result().call_soon_threadsafe(self._closing.set)
            if current_thread() is not self._thread:  # garbage collection calls this in any thread
                self._thread.join(_CLOSE_SECONDS)

    def _run_loop(self) -> None:
        loop = asyncio.new_event_loop()  # not asyncio.run: it starts a thread at the end, and an exiting process cannot
        self._loop.set_result(loop)
        loop.run_until_complete(self._serve())
        loop.close()

    async def _serve(self) -> None:
        await self._closing.wait()
        await self._http.aclose()
        await asyncio.get_running_loop().shutdown_asyncgens()
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        # A transport that is closed waits for its peer to read the rest. Aborted ones release their sockets at once.
        for transport in list(getattr(asyncio.get_running_loop(), "_transports", {}).values()):
            transport.abort()
        for _ in range(3):  # transports call back in the next cycles of the loop
            await asyncio.sleep(0)

    async def _ask(self, prompt: str) -> Response:
        try:
            # Some servers send blanks to keep a client waiting, so this limits the whole attempt.
            async with asyncio.timeout(self._timeout_seconds):
                response = await self._request(prompt)
        except (TimeoutError, exceptions.ModelTimeoutError):
            raise self._errors.make_timeout_error(self._timeout_seconds) from None
        except exceptions.ModelHTTPError as error:
            raise self._make_status_error(error) from None
        except (exceptions.ModelConnectionError, httpx2.TransportError) as error:  # the latter during a stream
            raise self._make_connection_error(error) from None
        except (exceptions.AgentRunError, exceptions.UserError, IndexError) as error:
            reason = "the list of choices is empty" if isinstance(error, IndexError) else str(error)
            raise self._errors.make_invalid_response_error(reason) from None
        return self._make_response(response)

    async def _request(self, prompt: str) -> messages.ModelResponse:
        request, schema, model_settings = _make_messages(prompt), get_schema(prompt), self._settings
        if (temperature := model_settings.get("temperature")) is not None:
            model_settings = {**model_settings, "temperature": shift_temperature(temperature, prompt, _MAX_TEMPERATURE)}
        if self._effort is not None:
            model_settings = {**model_settings, "thinking": shift_effort(self._effort, prompt)}
        if schema is not None and self._supports_json_schema:
            try:
                return await self._model.request(request, model_settings, _make_schema_parameters(schema))
            except exceptions.ModelHTTPError as error:
                if error.status_code in (400, 422):
                    self._supports_json_schema = False
                raise
        if self._is_streamed:
            return await self._request_stream(request, model_settings)
        return await self._model.request(request, model_settings, _PLAIN_PARAMETERS)

    async def _request_stream(
        self, request: list[messages.ModelMessage], model_settings: settings.ModelSettings
    ) -> messages.ModelResponse:
        try:
            async with self._model.request_stream(request, model_settings, _PLAIN_PARAMETERS) as stream:
                async for _ in stream:
                    pass
        except exceptions.ModelAPIError as error:
            if type(error) is not exceptions.ModelAPIError:
                raise
            raise httpx2.ReadError("the stream ended before the response did") from None
        return stream.get()

    def _make_response(self, response: messages.ModelResponse) -> Response:
        text, usage = response.text, response.usage
        tokens = (max(0, usage.input_tokens or 0), max(0, usage.output_tokens or 0))
        cost = Cost(0.0, *tokens, clean_usd(usage.cost))  # some gateways report dollars
        if not text:
            raise self._errors.make_empty_response_error(response.finish_reason, cost)
        if len(text) > http_client.MAX_RESPONSE_BYTES:
            raise self._errors.make_too_large_error(f"the response has {len(text):,} characters")
        model, remove_key = response.model_name or self._endpoint.model, self._endpoint.remove_key
        return Response(remove_key(text), remove_key(model), cost)

    def _make_status_error(self, error: exceptions.ModelHTTPError) -> LLMError:
        body = error.body
        message = body.get("message") if isinstance(body, Mapping) else body
        is_quota_exceeded = isinstance(error, exceptions.ModelQuotaExceededError)
        return self._errors.make_status_error(
            error.status_code, str(message or error.message), error.retry_after, is_quota_exceeded=is_quota_exceeded
        )

    def _make_connection_error(self, error: BaseException) -> LLMError:
        root_cause = _get_root_cause(error)
        if isinstance(root_cause, http_client.ResponseTooLarge):
            return self._errors.make_too_large_error(str(root_cause))
        return self._errors.make_connection_error(str(root_cause), is_sent=not _is_unconnected(error))


def _make_messages(prompt: str) -> list[messages.ModelMessage]:
    """Returns the messages of a prompt; consecutive ones of system and user are one request."""
    request_parts, model_messages = list[messages.ModelRequestPart](), list[messages.ModelMessage]()
    for role, text in get_messages(prompt):
        if role == "assistant":
            model_messages.append(messages.ModelRequest(parts=request_parts))
            model_messages.append(messages.ModelResponse(parts=[messages.TextPart(clean_text(text))]))
            request_parts = []
        else:
            make_part = messages.SystemPromptPart if role == "system" else messages.UserPromptPart
            request_parts.append(make_part(clean_text(text)))
    return [*model_messages, messages.ModelRequest(parts=request_parts)]


def _make_settings(sampling: SamplingOptions) -> settings.ModelSettings:
    """Returns the settings of a request. SDKs do not retry, because `RetryingClient` does."""
    model_settings = settings.ModelSettings(max_retries=0)
    if sampling.temperature is not None:
        model_settings["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        model_settings["top_p"] = sampling.top_p
    if sampling.top_k is not None:
        model_settings["top_k"] = sampling.top_k
    if sampling.seed is not None:
        model_settings["seed"] = sampling.seed
    if sampling.max_tokens is not None:
        model_settings["max_tokens"] = sampling.max_tokens
    if sampling.thinking is not None:
        model_settings["thinking"] = False if sampling.thinking == "off" else sampling.thinking
    return model_settings


def _make_schema_parameters(schema: Mapping[str, Any]) -> models.ModelRequestParameters:
    output_object = output.OutputObjectDefinition(dict(schema), name="answer", strict=False)
    return models.ModelRequestParameters(output_mode="native", output_object=output_object)


def _is_unconnected(error: BaseException | None) -> bool:
    """Returns whether the server cannot have got the request."""
    connect_errors = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
    return error is not None and (isinstance(error, connect_errors) or _is_unconnected(error.__cause__))


def _get_root_cause(error: BaseException) -> BaseException:
    """Returns the first error of a chain; the others only wrap it."""
    while error.__cause__ is not None and str(error.__cause__):
        error = error.__cause__
    return error
