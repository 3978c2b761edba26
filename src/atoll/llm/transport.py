"""Our kept connections as a transport of httpx2, for SDKs that ask a server of one's own."""

import httpx2

from atoll.llm import connections


class HTTPXResponseTooLarge(httpx2.ReadError):
    """The answer has more bytes than anybody would read."""


# The first that fits counts.
_HTTPX_ERRORS: tuple[tuple[type[connections.HTTPError], type[httpx2.TransportError]], ...] = (
    (connections.ConnectionFailed, httpx2.ConnectError),
    (connections.HTTPTimeout, httpx2.ReadTimeout),
    (connections.InvalidHTTP, httpx2.RemoteProtocolError),
    (connections.ResponseTooLarge, HTTPXResponseTooLarge),
    (connections.HTTPError, httpx2.ReadError),
)


class PooledTransport(httpx2.AsyncBaseTransport):
    """Keeps as many connections as there were requests at once; for one server and one event loop."""

    def __init__(self) -> None:
        self._connections = connections.AsyncConnectionPool()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        limits, url = request.extensions.get("timeout", {}), request.url
        http_request = connections.HTTPRequest(url.host, url.port or 80, _format_request(request, await request.aread()))
        try:
            http_response = await self._connections.exchange(
                http_request, connect_seconds=limits.get("connect"), read_seconds=limits.get("read")
            )
        except connections.HTTPError as error:
            error_type = next(httpx_error for pool_error, httpx_error in _HTTPX_ERRORS if isinstance(error, pool_error))
            raise error_type(str(error)) from None
        return httpx2.Response(http_response.status, headers=http_response.headers, content=http_response.body)

    async def aclose(self) -> None:
        await self._connections.aclose()


def _format_request(request: httpx2.Request, body: bytes) -> bytes:
    lines = [b"%s %s HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
    lines += [b"%s: %s" % field for field in request.headers.raw]
    head = b"\r\n".join(lines)
    if head.count(b"\n") != len(lines) - 1:
        raise httpx2.LocalProtocolError("a header has a line break in it")
    return head + b"\r\n\r\n" + body
