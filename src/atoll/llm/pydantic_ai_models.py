"""pydantic-ai model of an endpoint. Importing this module takes more than a second."""

from typing import Any

import httpx2
import openai
from pydantic_ai import exceptions, models
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers import Provider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from atoll import errors
from atoll.llm.endpoint import SERVICES, Endpoint

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
