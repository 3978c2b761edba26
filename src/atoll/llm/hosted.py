"""A model behind an API: OpenAI's, a gateway's, Anthropic's, Google's, or that of a server of one's own."""

from threading import Lock
from typing import Any, Protocol

from atoll.llm import budget, endpoint
from atoll.llm.base import Response
from atoll.llm.endpoint import SamplingOptions, Thinking
from atoll.llm.retry_policy import RetryPolicy


class LLMClient(Protocol):
    """What speaks with the server: `client.Client`, which takes more than a second to import."""

    @property
    def supports_json_schema(self) -> bool: ...

    def __call__(self, prompt: str, /) -> Response: ...


class HostedLLM:
    """Asks one model of one server; calls of several threads are answered at the same time."""

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
    ) -> None:
        """Checks the set-up and connects to nothing yet.

        Args:
            service: Who offers it, one of `endpoint.SERVICES`.
            model: As the server calls it.
            base_url: Where the server is, mostly ending in /v1. None takes the service's own, or what its variable
                in the environment says.
            api_key: None takes the service's variable. A server of one's own may want none.
            temperature: This and the next six are those of `Sampling`: None leaves them to the server.
            top_p: See there.
            top_k: See there.
            seed: See there.
            max_tokens: See there.
            thinking: See there.
            stream: See there.
            timeout_seconds: This and the next four are those of `Policy`.
            retries: See there.
            backoff_seconds: See there.
            max_wait_seconds: See there.
            outage_seconds: See there.

        Raises:
            SetupError: The address is none, the key is missing or no key, or an option is out of its range.
        """
        self._endpoint = endpoint.make_endpoint(service, model, base_url, api_key)
        self._policy = RetryPolicy(
            timeout_seconds, retries, backoff_seconds, max_wait_seconds, outage_seconds=outage_seconds
        )
        self._sampling = SamplingOptions(temperature, top_p, top_k, seed, max_tokens, thinking, stream)
        self._lock = Lock()
        self._client: LLMClient | None = None

    @property
    def model(self) -> str:
        return self._endpoint.model

    @property
    def base_url(self) -> str:
        return self._endpoint.base_url

    @property
    def max_tokens(self) -> int | None:
        """The most that a reply may have; None: as many as the provider likes."""
        return self._sampling.max_tokens

    @property
    def price(self) -> budget.Price | None:
        """What its tokens cost, if that is known."""
        return budget.find_price(self._endpoint.service, self.model, self.base_url)

    @property
    def supports_json_schema(self) -> bool:
        """Whether it holds a reply to a JSON schema; the first look takes a second."""
        return self._get_client().supports_json_schema

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, base_url={self.base_url!r})"

    def __call__(self, prompt: str) -> Response:
        """Returns the reply; its seconds are those of all tries.

        Raises:
            NoReply: There is none after all retries; the message says why and what to do.
            SetupError: The service needs a package that is not installed.
        """
        return self._get_client()(prompt)

    def _get_client(self) -> LLMClient:
        client = self._client
        if client is None:
            with self._lock:
                self._client = client = self._client or self._make_client()
        return client

    def _make_client(self) -> LLMClient:
        from atoll.llm import retrying_client  # takes more than a second; whoever never asks does not pay for it

        return retrying_client.RetryingClient(self._endpoint, self._sampling, self._policy)


class OpenAICompatibleLLM(HostedLLM):
    """A server that speaks OpenAI's chat completions: OpenAI itself, a gateway, vLLM, llama.cpp, Ollama."""

    def __init__(self, model: str, *, service: str = "openai", **options: Any) -> None:
        """Checks the set-up and connects to nothing yet; the options are those of `Hosted`."""
        super().__init__(service, model, **options)
