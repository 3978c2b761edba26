"""Where a model is, and by which key it is asked."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from atoll import errors
from atoll.llm.retry_policy import check_range


@dataclass(frozen=True, slots=True)
class Service:
    """Who offers models.

    Attributes:
        url: Where, unless one says otherwise.
        key_variables: Of the environment; the first that is set counts.
        url_variable: Of the environment: another address.
        is_own: The server is on this machine and mostly wants no key.
        extra: What must be installed for it besides, as an extra of this package.
    """

    url: str
    key_variables: tuple[str, ...]
    url_variable: str = ""
    is_local: bool = False
    extra: str = ""

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""


# All but those with an extra speak OpenAI's chat completions.
SERVICES: Mapping[str, Service] = {
    "openai": Service("https://api.openai.com/v1", ("OPENAI_API_KEY",), "OPENAI_BASE_URL"),
    "anthropic": Service("https://api.anthropic.com", ("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL", extra="anthropic"),
    "google": Service(
        "https://generativelanguage.googleapis.com", ("GOOGLE_API_KEY", "GEMINI_API_KEY"), extra="google"
    ),
    "openrouter": Service("https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
    "minimax": Service("https://api.minimax.io/v1", ("MINIMAX_API_KEY",)),
    "ollama": Service("http://127.0.0.1:11434/v1", ("OLLAMA_API_KEY",), "OLLAMA_BASE_URL", is_local=True),
    "vllm": Service("http://127.0.0.1:8000/v1", ("VLLM_API_KEY",), "VLLM_BASE_URL", is_local=True),
    "lmstudio": Service("http://127.0.0.1:1234/v1", ("LMSTUDIO_API_KEY",), "LMSTUDIO_BASE_URL", is_local=True),
    "llamacpp": Service("http://127.0.0.1:8080/v1", ("LLAMACPP_API_KEY",), "LLAMACPP_BASE_URL", is_local=True),
}

_NO_KEY = "no-key"  # most own servers want none, but the client wants to send one
_MIN_KEY_CHARS = 8  # characters
_URL_HINT = "give one like http://127.0.0.1:8000/v1"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One model of one server.

    Attributes:
        service: A key of `SERVICES`.
        model: As the server calls it.
        base_url: Without a slash at its end.
        api_key: Sent to the server and shown to nobody.
    """

    service: str
    model: str
    base_url: str
    api_key: str = field(repr=False)

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or ""

    @property
    def is_public(self) -> bool:
        """Whether the server is the service's own, and not only compatible with it."""
        return self.host == SERVICES[self.service].host

    @property
    def key_variable(self) -> str:
        """Where a key is looked for first."""
        return SERVICES[self.service].key_variables[0]

    @property
    def is_encrypted(self) -> bool:
        return self.base_url.startswith("https:")

    def remove_key(self, text: str) -> str:
        """Returns what a server said without the key, which some repeat; a short one may be any word and stays."""
        return text.replace(self.api_key, "***") if len(self.api_key) >= _MIN_KEY_CHARS else text


def make_endpoint(service: str, model: str, base_url: str | None, api_key: str | None) -> Endpoint:
    """Returns the endpoint; what is None comes from the environment.

    Raises:
        SetupError: There is no name, the address is none, or the key is missing or no key.
    """
    service_info, name = SERVICES[service], model.strip()
    if not name:
        raise errors.SetupError("The model has no name: give the name by which the server knows it.")
    variable = service_info.key_variables[0]
    url = _check_url(base_url or os.environ.get(service_info.url_variable) or service_info.url, variable)
    key_text = (
        next((key for key in map(os.environ.get, service_info.key_variables) if key), "")
        if api_key is None
        else api_key
    )
    endpoint = Endpoint(service, name, url, key_text.strip() or _NO_KEY)
    if not key_text.strip() and endpoint.is_public and not service_info.is_local:
        raise errors.SetupError(
            f"There is no key for {url}: set {variable}, or name a server of your own that needs none, "
            f"like openai:{name}@http://127.0.0.1:8000/v1."
        )
    if not (endpoint.api_key.isascii() and endpoint.api_key.isprintable()) or " " in endpoint.api_key:
        raise errors.SetupError(f"The key for {url} has blanks or odd characters in it: set {variable} again.")
    return endpoint


def _check_url(text: str, variable: str) -> str:
    text = text.strip().rstrip("/")
    try:
        url = urlsplit(text)
        _ = url.port
    except ValueError as error:
        raise errors.SetupError(f"The address {text!r} is none ({error}): {_URL_HINT}.") from None
    if "@" in url.netloc:  # it may be a password, so the address is not shown
        host = url.netloc.rpartition("@")[2]
        raise errors.SetupError(f"The address of {host} has an '@' in it: put the key into {variable} instead.")
    if url.scheme not in ("http", "https") or not url.hostname or any(char.isspace() for char in text):
        raise errors.SetupError(f"The address {text!r} is no http:// or https:// address of a server: {_URL_HINT}.")
    if url.query or url.fragment:
        raise errors.SetupError(f"The address {text!r} has a '?' or a '#' in it: {_URL_HINT}.")
    return text


type Thinking = Literal["off", "minimal", "low", "medium", "high"]

THINKING_LEVELS = ("off", "minimal", "low", "medium", "high")


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """Options of a request.

    Attributes:
        temperature: 0 is the likeliest word each time.
        top_p: Only the likeliest words that make up this share.
        top_k: Only so many of the likeliest words; only some providers know it.
        seed: For providers that repeat themselves if asked to.
        max_tokens: The most that a reply may have.
        thinking: How hard a model that reasons shall try.
        stream: Whether the reply is sent as it is made; it is put together before anybody sees it.

    Raises:
        SetupError: One is out of its range.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    max_tokens: int | None = None
    thinking: Thinking | None = None
    stream: bool = False

    def __post_init__(self) -> None:
        if self.temperature is not None:
            check_range("temperature", self.temperature)
        for name in ("top_p", "top_k", "max_tokens"):
            if (value := getattr(self, name)) is not None:
                check_range(name, value, above=0)
        if self.thinking is not None and self.thinking not in THINKING_LEVELS:
            raise errors.SetupError(f"thinking is {self.thinking!r}: give one of {', '.join(THINKING_LEVELS)}.")
