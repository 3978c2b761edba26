"""Our kept connections as a transport of httpx2, for SDKs that ask a server of one's own."""

import httpx2

from atoll.llm import connections


class TooLong(httpx2.ReadError):
    """The answer has more bytes than anybody would read."""


# The first that fits counts.
_AS_HTTPX: tuple[tuple[type[connections.Lost], type[httpx2.TransportError]], ...] = (
    (connections.Unreachable, httpx2.ConnectError),
    (connections.Silent, httpx2.ReadTimeout),
    (connections.Foreign, httpx2.RemoteProtocolError),
    (connections.TooLong, TooLong),
    (connections.Lost, httpx2.ReadError),
)


class Transport(httpx2.AsyncBaseTransport):
    """Keeps as many connections as there were requests at once; for one server and one event loop."""

    def __init__(self) -> None:
        self._connections = connections.Connections()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        limits, url = request.extensions.get("timeout", {}), request.url
        sent = connections.Request(url.host, url.port or 80, _message(request, await request.aread()))
        try:
            answer = await self._connections.exchange(
                sent, connect_seconds=limits.get("connect"), read_seconds=limits.get("read")
            )
        except connections.Lost as error:
            kind = next(theirs for ours, theirs in _AS_HTTPX if isinstance(error, ours))
            raise kind(str(error)) from None
        return httpx2.Response(answer.status, headers=answer.headers, content=answer.body)

    async def aclose(self) -> None:
        await self._connections.aclose()


def _message(request: httpx2.Request, body: bytes) -> bytes:
    lines = [b"%s %s HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
    lines += [b"%s: %s" % field for field in request.headers.raw]
    head = b"\r\n".join(lines)
    if head.count(b"\n") != len(lines) - 1:
        raise httpx2.LocalProtocolError("a header has a line break in it")
    return head + b"\r\n\r\n" + body
