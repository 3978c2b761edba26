"""A server that speaks OpenAI's chat completions: OpenAI itself, a gateway, vLLM, llama.cpp, Ollama."""

import math
from collections.abc import Callable
from threading import Lock

from atoll import errors
from atoll.llm import endpoint
from atoll.llm.llm import Reply


class OpenAICompatible:
    """Asks one model of one server; calls of several threads are answered at the same time."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        timeout_seconds: float = 60.0,
        retries: int = 2,
        backoff_seconds: float = 0.5,
    ) -> None:
        """Checks the set-up and connects to nothing yet.

        Args:
            model: As the server calls it.
            base_url: Where the server is, mostly ending in /v1. None takes OPENAI_BASE_URL, or OpenAI's own.
            api_key: None takes OPENAI_API_KEY. A server other than OpenAI's may want none.
            temperature: None leaves it to the server.
            max_tokens: The most that a reply may have. None leaves it to the server.
            timeout_seconds: How long one try may take in all.
            retries: How often a try is repeated that failed for a busy, broken or unreachable server.
            backoff_seconds: The first pause before such a repetition; each further one is twice as long.

        Raises:
            SetupError: The address is none, the key is missing or no key, or an option is out of its range.
        """
        self._endpoint = endpoint.find(model, base_url, api_key)
        self._temperature, self._timeout_seconds = temperature, _checked("timeout_seconds", timeout_seconds, above=0)
        self._max_tokens, self._retries = max_tokens, int(_checked("retries", retries))
        self._backoff_seconds = _checked("backoff_seconds", backoff_seconds)
        if temperature is not None:
            _checked("temperature", temperature)
        if max_tokens is not None:
            _checked("max_tokens", max_tokens, above=0)
        self._lock = Lock()
        self._client: Callable[[str], Reply] | None = None

    @property
    def model(self) -> str:
        return self._endpoint.model

    @property
    def base_url(self) -> str:
        return self._endpoint.base_url

    def __repr__(self) -> str:
        return f"OpenAICompatible({self.model!r}, base_url={self.base_url!r})"

    def __call__(self, prompt: str) -> Reply:
        """Returns the reply; its seconds are those of all tries.

        Raises:
            NoReply: There is none after all retries; the message says why and what to do.
        """
        client = self._client
        if client is None:
            with self._lock:
                self._client = client = self._client or self._make_client()
        return client(prompt)

    def _make_client(self) -> Callable[[str], Reply]:
        from atoll.llm import client  # takes more than a second; whoever never asks does not pay for it

        return client.Client(
            self._endpoint,
            temperature=self._temperature,
            max_tokens=self._max_tokens,
            timeout_seconds=self._timeout_seconds,
            retries=self._retries,
            backoff_seconds=self._backoff_seconds,
        )


def _checked(name: str, value: float, above: float | None = None) -> float:
    if not math.isfinite(value) or (value < 0 if above is None else value <= above):
        raise errors.SetupError(f"{name} is {value}: give {'0 or more' if above is None else f'more than {above}'}.")
    return value
