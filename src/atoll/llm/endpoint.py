"""Address, API key and sampling options of an LLM."""

import importlib.util
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal
from urllib.parse import urlsplit

from atoll import errors
from atoll.llm.base import ChatPrompt
from atoll.llm.retry_policy import check_range


@dataclass(frozen=True, slots=True)
class Service:
    """Provider of LLMs.

    Attributes:
        url: Default address.
        key_variables: Environment variables for the API key; the first that is set counts.
        url_variable: Environment variable for another address.
        is_local: Whether the server runs on this machine and usually needs no key.
        extra: Extra of this package that must be installed.
    """

    url: str
    key_variables: tuple[str, ...]
    url_variable: str = ""
    is_local: bool = False
    extra: str = ""

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""


# All services without an extra use OpenAI's chat completions API.
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

_NO_KEY = "no-key"  # most local servers need no key, but clients must send one
_MIN_KEY_CHARS = 8  # shorter keys could be any word
_URL_HINT = "Use one like http://127.0.0.1:8000/v1"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One model of one server.

    Attributes:
        service: A key of `SERVICES`.
        model: Name of the model on the server.
        base_url: Address without a trailing slash.
        api_key: Sent to the server and never shown.
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
        """True if this is the server of the provider, not only a compatible one."""
        return self.host == SERVICES[self.service].host

    @property
    def key_variable(self) -> str:
        """First environment variable for the API key."""
        return SERVICES[self.service].key_variables[0]

    @property
    def is_encrypted(self) -> bool:
        return self.base_url.startswith("https:")

    @property
    def may_use_proxy(self) -> bool:
        """True if proxies and certificates come from the environment. This machine is never asked through a proxy."""
        return self.is_encrypted or not _is_loopback(self.host)

    def remove_key(self, text: str) -> str:
        """Returns a text of the server without the key, which some servers repeat. Short keys stay."""
        return text.replace(self.api_key, "***") if len(self.api_key) >= _MIN_KEY_CHARS else text


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def make_endpoint(service: str, model: str, base_url: str | None, api_key: str | None) -> Endpoint:
    """Returns the endpoint. Arguments that are None come from the environment.

    Raises:
        SetupError: The model has no name, or the address or the key is missing or invalid.
    """
    service_info, name = SERVICES[service], model.strip()
    if not name:
        raise errors.SetupError("The LLM has no name. Use the name of a model on the server.")
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
            f"No API key for {url}. Set {variable}, or use a server that needs none, "
            f"like openai:{name}@http://127.0.0.1:8000/v1."
        )
    if not (endpoint.api_key.isascii() and endpoint.api_key.isprintable()) or " " in endpoint.api_key:
        raise errors.SetupError(f"The API key for {url} contains blanks or special characters. Set {variable} again.")
    return endpoint


def _check_url(text: str, variable: str) -> str:
    text = text.strip().rstrip("/")
    try:
        url = urlsplit(text)
        _ = url.port
    except ValueError as error:
        raise errors.SetupError(f"{text!r} is not a valid address ({error}). {_URL_HINT}.") from None
    if "@" in url.netloc:  # the part before it may be a password, so the message omits it
        host = url.netloc.rpartition("@")[2]
        raise errors.SetupError(f"The address of {host} contains an '@'. Put the API key into {variable} instead.")
    if url.scheme not in ("http", "https") or not url.hostname or any(char.isspace() for char in text):
        raise errors.SetupError(f"{text!r} is not an http:// or https:// address. {_URL_HINT}.")
    if url.query or url.fragment:
        address = text.partition("?")[0].partition("#")[0]  # the rest may be a key
        raise errors.SetupError(f"The address of {address!r} contains a '?' or a '#'. {_URL_HINT}.")
    return text


_START_SECONDS, _CONNECT_SECONDS, _POLL_SECONDS = 4.0, 3.0, 0.5


def check_connection(endpoint: Endpoint) -> None:
    """Checks that a server accepts connections, with some patience for one that starts. A slow one passes.

    A server behind a proxy passes too.

    Raises:
        SetupError: No server is at the address.
    """
    import socket  # slow imports
    import urllib.request

    scheme = "https" if endpoint.is_encrypted else "http"
    has_proxy = not {scheme, "all"}.isdisjoint(urllib.request.getproxies())
    if endpoint.may_use_proxy and has_proxy and not urllib.request.proxy_bypass(endpoint.host):
        return
    port = urlsplit(endpoint.base_url).port or (443 if endpoint.is_encrypted else 80)
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection((endpoint.host, port), _CONNECT_SECONDS).close()
            return
        except TimeoutError:
            return
        except OSError as error:
            reason = error.strerror or str(error)
        except UnicodeError as error:  # of the host name
            reason = str(error)
        if time.monotonic() >= until:
            remedy = "Check the network" if endpoint.is_public else "Start the server, or correct the address"
            raise errors.SetupError(
                f"LLM {endpoint.model} at {endpoint.base_url} cannot be reached: {reason}. {remedy}."
            )
        time.sleep(_POLL_SECONDS)


type Thinking = Literal["off", "minimal", "low", "medium", "high"]

type Effort = Literal["minimal", "low", "medium", "high"]

_EFFORTS: tuple[Effort, ...] = ("minimal", "low", "medium", "high")
THINKING_LEVELS = ("off", *_EFFORTS)


def shift_effort(effort: Effort, prompt: str) -> Effort:
    """Returns the reasoning effort for a prompt: the configured one, or the levels above or below that it asks for."""
    shift = prompt.effort_shift if isinstance(prompt, ChatPrompt) else 0
    return _EFFORTS[min(max(_EFFORTS.index(effort) + shift, 0), len(_EFFORTS) - 1)]


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """Sampling options of a request; None leaves an option to the server.

    Attributes:
        temperature: Randomness; 0 always takes the likeliest token.
        top_p: Share of probability from which tokens are drawn.
        top_k: Number of tokens to draw from; only some providers support it.
        seed: Random seed; only some providers support it.
        max_tokens: Maximum length of a response.
        thinking: Reasoning effort.
        stream: Whether the server sends the response in pieces. Callers still get it whole.

    Raises:
        SetupError: An option is out of range.
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
            raise errors.SetupError(f"thinking is {self.thinking!r}. Use one of {', '.join(THINKING_LEVELS)}.")


def needs_sdk(endpoint: Endpoint, sampling: SamplingOptions) -> bool:
    """Returns whether requests go through pydantic-ai.

    `https://` means a hosted service, and these differ in details that SDKs know.
    """
    is_hosted = endpoint.is_encrypted or bool(SERVICES[endpoint.service].extra)
    return is_hosted or sampling.stream or sampling.thinking is not None


def check_sdk(endpoint: Endpoint) -> None:
    """Checks that pydantic-ai is installed.

    Raises:
        MissingExtra: It is not installed.
    """
    if importlib.util.find_spec("pydantic_ai") is None or importlib.util.find_spec("openai") is None:
        extra = SERVICES[endpoint.service].extra or "openai"
        raise errors.MissingExtra(
            f"{endpoint.service}:{endpoint.model} needs pydantic-ai for {endpoint.base_url}. "
            f"Run: pip install 'atoll[{extra}]'."
        )
