"""LLMs behind an API: OpenAI, Anthropic, Google, gateways, or your own server."""

from threading import Lock
from typing import Any, Protocol

from atoll.llm import budget, endpoint
from atoll.llm.base import ChatPrompt, Message, Response, get_messages, get_schema
from atoll.llm.endpoint import SamplingOptions, Thinking
from atoll.llm.retry_policy import RetryPolicy


class LLMClient(Protocol):
    """Interface of `retrying_client.RetryingClient`, which is slow to import."""

    @property
    def supports_json_schema(self) -> bool: ...

    def __call__(self, prompt: str, /) -> Response: ...


class HostedLLM:
    """One model of one server. Several threads can call it at once."""

    def __init__(
        self,
        service: str,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        top_k: int | None = None,
        seed: int | None = None,
        max_tokens: int | None = None,
        thinking: Thinking | None = None,
        stream: bool = False,
        timeout_seconds: float = 60.0,
        retries: int = 2,
        backoff_seconds: float = 0.5,
        max_wait_seconds: float = 60.0,
        outage_seconds: float = 120.0,
        system_message: str | None = None,
        price: budget.Price | None = None,
    ) -> None:
        """Checks the arguments; opens no connection.

        Args:
            service: Provider, a key of `endpoint.SERVICES`.
            model: Name of the model on the server.
            base_url: Address, usually ending in /v1. None means the environment variable or the default of the service.
            api_key: None means the environment variable of the service. Your own server may need none.
            temperature: This and the next six are options of `SamplingOptions`; None leaves them to the server.
            top_p: See there.
            top_k: See there.
            seed: See there.
            max_tokens: See there.
            thinking: See there.
            stream: See there.
            timeout_seconds: This and the next four are options of `RetryPolicy`.
            retries: See there.
            backoff_seconds: See there.
            max_wait_seconds: See there.
            outage_seconds: See there.
            system_message: Replaces the system message of every prompt; None: none.
            price: Price of its tokens; None means the public list.

        Raises:
            SetupError: The address, the key or an option is missing or invalid, or a package is not installed.
        """
        self._endpoint = endpoint.make_endpoint(service, model, base_url, api_key)
        self._policy = RetryPolicy(
            timeout_seconds, retries, backoff_seconds, max_wait_seconds, outage_seconds=outage_seconds
        )
        self._sampling = SamplingOptions(temperature, top_p, top_k, seed, max_tokens, thinking, stream)
        if endpoint.needs_sdk(self._endpoint, self._sampling):
            endpoint.check_sdk(self._endpoint)
        self._system_message = system_message
        self._lock = Lock()
        self._client: LLMClient | None = None
        self._price = price

    @property
    def model(self) -> str:
        return self._endpoint.model

    @property
    def base_url(self) -> str:
        return self._endpoint.base_url

    @property
    def max_tokens(self) -> int | None:
        """Maximum length of a response; None leaves it to the provider."""
        return self._sampling.max_tokens

    @property
    def system_message(self) -> str | None:
        """System message that replaces the one of each prompt, if any."""
        return self._system_message

    @property
    def price(self) -> budget.Price | None:
        """Price of its tokens, if known: of the model that is asked for, whatever name the server returns."""
        return self._price or budget.find_price(self._endpoint.service, self.model, self.base_url)

    @property
    def supports_json_schema(self) -> bool:
        """True if the provider enforces JSON schemas. The first access may take a second."""
        return self._get_client().supports_json_schema

    def check_connection(self) -> None:
        """Checks that the server accepts connections; sends no request.

        Raises:
            SetupError: No server is at the address.
        """
        endpoint.check_connection(self._endpoint)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, base_url={self.base_url!r})"

    def __call__(self, prompt: str) -> Response:
        """Returns the response; its seconds include all attempts.

        Raises:
            LLMError: All attempts failed; the message says why and what to do.
            SetupError: The service needs a package that is not installed.
        """
        if self._system_message is not None:
            others = [message for message in get_messages(prompt) if message[0] != "system"]
            shift, effort = (
                (prompt.temperature_shift, prompt.effort_shift) if isinstance(prompt, ChatPrompt) else (0.0, 0)
            )
            system: Message = ("system", self._system_message)
            schema = get_schema(prompt)
            prompt = ChatPrompt(system, *others, schema=schema, temperature_shift=shift, effort_shift=effort)
        return self._get_client()(prompt)

    def _get_client(self) -> LLMClient:
        client = self._client
        if client is None:
            with self._lock:
                self._client = client = self._client or self._make_client()
        return client

    def _make_client(self) -> LLMClient:
        from atoll.llm import retrying_client  # imports httpx: only when needed

        return retrying_client.RetryingClient(self._endpoint, self._sampling, self._policy, self.price)


class OpenAICompatibleLLM(HostedLLM):
    """Server with OpenAI's chat completions API: OpenAI, a gateway, vLLM, llama.cpp, Ollama."""

    def __init__(self, model: str, *, service: str = "openai", **options: Any) -> None:
        """Checks the arguments; opens no connection. The options are those of `HostedLLM`."""
        super().__init__(service, model, **options)
