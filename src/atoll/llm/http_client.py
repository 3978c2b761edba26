"""httpx clients for LLM servers, with keep-alive and limits on connections, time and response size."""

from collections.abc import AsyncIterator
from ipaddress import ip_address
from typing import Any

import httpx2

from atoll.llm.endpoint import Endpoint

MAX_RESPONSE_BYTES = 4 * 2**20  # far above any useful response; protects memory from a broken server
_MAX_STREAM_BYTES = 16 * MAX_RESPONSE_BYTES  # a stream wraps each token in some 250 bytes of JSON
_CONNECT_SECONDS = 10.0
# A connection for each concurrent call; further calls wait.
_LIMITS = httpx2.Limits(max_connections=256, max_keepalive_connections=256, keepalive_expiry=30.0)


class ResponseTooLarge(httpx2.ReadError):
    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"the response has more than {max_bytes:,} bytes")


def make_client(endpoint: Endpoint, timeout_seconds: float) -> httpx2.Client:
    """Returns a client without a size limit: callers read the body in pieces and check it themselves."""
    return httpx2.Client(**_make_options(endpoint, timeout_seconds))


def make_async_client(endpoint: Endpoint, timeout_seconds: float) -> httpx2.AsyncClient:
    """Returns a client for an SDK; a longer response raises `ResponseTooLarge`."""
    hooks = {"response": [_limit_size]}
    return httpx2.AsyncClient(event_hooks=hooks, **_make_options(endpoint, timeout_seconds))


def _make_options(endpoint: Endpoint, timeout_seconds: float) -> dict[str, Any]:
    return {
        "timeout": httpx2.Timeout(timeout_seconds, connect=min(_CONNECT_SECONDS, timeout_seconds)),
        "limits": _LIMITS,
        "headers": {"Accept-Encoding": "identity"},  # a compressed response could exceed the limit when unpacked
        # Proxies and certificates come from the environment, but this machine is never asked through a proxy.
        "trust_env": endpoint.is_encrypted or not _is_loopback(endpoint.host),
    }


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


async def _limit_size(response: httpx2.Response) -> None:
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    response.stream = _LimitedStream(response.stream, _MAX_STREAM_BYTES if is_stream else MAX_RESPONSE_BYTES)


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._stream, self._max_bytes = stream, max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > self._max_bytes:
                raise ResponseTooLarge(self._max_bytes)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
