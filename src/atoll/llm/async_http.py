"""Plain HTTP/1.1 over kept connections: requests and answers in one piece.

On loopback 40 % of the CPU of a call went into the pool of an HTTP library and what is below it, and more with every
connection kept: such a pool looks at all of them twice per request.
"""

import asyncio
from typing import NamedTuple, Protocol

import httpx2

MAX_RESPONSE_BYTES = 4 * 2**20  # no proposal is that long; a server that goes mad should not take our memory with it

type HeaderFields = list[tuple[bytes, bytes]]


class HTTPError(Exception):
    """There is no answer: the server is not there, is silent, or breaks off."""


class ConnectionFailed(HTTPError):
    """There is no connection."""


class HTTPTimeout(HTTPError):
    """The answer took too long."""


class InvalidHTTP(HTTPError):
    """What came is no HTTP/1.1."""


class ResponseTooLarge(HTTPError):
    """The answer has more bytes than anybody would read."""

    def __init__(self) -> None:
        super().__init__(f"the answer has more than {MAX_RESPONSE_BYTES:,} bytes")


class ConnectionClosed(HTTPError):
    """The connection was closed before a byte of the answer came."""


class HTTPRequest(NamedTuple):
    """What is sent.

    Attributes:
        host: Of the server.
        port: Of the server.
        message: The whole request, head and body.
    """

    host: str
    port: int
    message: bytes


class HTTPResponse(NamedTuple):
    """What came back."""

    status: int
    headers: HeaderFields
    body: bytes

    def get_header(self, name: bytes) -> str | None:
        """Returns the value of a field, whose name is given in lower case."""
        return next((value.decode("latin-1") for key, value in self.headers if key.lower() == name), None)


class ResponseReader(Protocol):
    """What an answer is read from: asyncio's `StreamReader`, or a wire."""

    async def readuntil(self, separator: bytes, /) -> bytes: ...

    async def readexactly(self, n: int, /) -> bytes: ...

    async def read(self, n: int = -1, /) -> bytes: ...

    def feed_eof(self) -> None: ...


class AsyncConnectionPool:
    """Keeps as many connections as there were requests at once; for one server and one event loop."""

    def __init__(self) -> None:
        self._idle: list[_Connection] = []
        self._is_closed = False

    async def exchange(
        self, request: HTTPRequest, *, connect_seconds: float | None = None, read_seconds: float | None = None
    ) -> HTTPResponse:
        """Sends a request and returns the answer.

        Raises:
            Lost: There is none.
        """
        while self._idle:
            connection = self._idle.pop()  # the one used last is the least likely to be closed by now
            if connection.is_open:
                try:
                    return await self._exchange_on(connection, request.message, read_seconds)
                except ConnectionClosed:
                    break  # closed for its age while the request was on its way
        connection = await _connect(request.host, request.port, connect_seconds)
        return await self._exchange_on(connection, request.message, read_seconds)

    async def aclose(self) -> None:
        """Ends all connections; those at work when they are done."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    async def _exchange_on(self, connection: "_Connection", message: bytes, seconds: float | None) -> HTTPResponse:
        is_reusable = False
        try:
            async with asyncio.timeout(seconds):
                response, is_reusable = await connection.exchange(message)
        except TimeoutError:
            raise HTTPTimeout(f"no answer within {seconds} seconds") from None
        except asyncio.IncompleteReadError:
            raise (
                HTTPError("the answer broke off") if connection.has_received else ConnectionClosed("no answer")
            ) from None
        except (ValueError, asyncio.LimitOverrunError) as error:
            raise InvalidHTTP(f"the answer is no HTTP/1.1: {error}") from None
        finally:
            if is_reusable and connection.is_open and not self._is_closed:
                self._idle.append(connection)
            else:
                connection.close()
        return response


class _Connection(asyncio.Protocol):
    """One exchange after the other. What comes when nobody asked ("408 you are idle") closes it."""

    transport: asyncio.Transport
    reader: asyncio.StreamReader | None = None
    is_open = True
    has_received = False  # with at least a byte, in this exchange

    async def exchange(self, message: bytes) -> tuple[HTTPResponse, bool]:
        """Sends a request and returns the answer, and whether the connection may be used again."""
        self.reader, self.has_received = (reader := asyncio.StreamReader()), False
        if not self.is_open:
            reader.feed_eof()
        self.transport.write(message)
        try:
            return await read_response(reader)
        finally:
            self.reader = None

    def close(self) -> None:
        self.is_open = False
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.reader is None:
            self.close()
        else:
            self.has_received = True
            self.reader.feed_data(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        if self.reader is not None:
            self.reader.feed_eof()


async def _connect(host: str, port: int, seconds: float | None) -> _Connection:
    try:
        async with asyncio.timeout(seconds):
            return (await asyncio.get_running_loop().create_connection(_Connection, host, port))[1]
    except TimeoutError:
        raise ConnectionFailed(f"no connection within {seconds} seconds") from None
    except OSError as error:
        raise ConnectionFailed(str(error)) from None


async def read_response(reader: ResponseReader) -> tuple[HTTPResponse, bool]:
    """Returns an answer, and whether the connection may be used again."""
    status = 100
    while status < 200:  # 1xx only announces
        status_line, *lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
        version, status = status_line[:8], int(status_line[9:12])
        headers = [(name, value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
    fields = {name.lower(): value.lower() for name, value in headers}
    if fields.get(b"transfer-encoding", b"").endswith(b"chunked"):
        body = await _read_chunks(reader)
    elif b"content-length" in fields or status in (204, 304):
        body = await reader.readexactly(_check_size(int(fields.get(b"content-length", 0))))
    else:
        body, version = await _read_to_end(reader), b""  # the end of the connection is the end of the answer
    reader.feed_eof()
    extra_data = await reader.read()  # more than was announced: whatever it is, it answers nothing
    is_reusable = version == b"HTTP/1.1" and fields.get(b"connection") != b"close" and not extra_data
    return HTTPResponse(status, headers, body), is_reusable


async def _read_chunks(reader: ResponseReader) -> bytes:
    parts: list[bytes] = []
    total = 0
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        total = _check_size(total + size)
        parts.append((await reader.readexactly(size + 2))[:-2])
    while len(await reader.readuntil(b"\r\n")) > 2:
        pass  # trailers
    return b"".join(parts)


async def _read_to_end(reader: ResponseReader) -> bytes:
    parts: list[bytes] = []
    while part := await reader.read(2**16):
        parts.append(part)
        _check_size(sum(map(len, parts)) if len(parts) % 64 == 0 else 0)
    return b"".join(parts)


def _check_size(size: int) -> int:
    if size > MAX_RESPONSE_BYTES:
        raise ResponseTooLarge
    return size


class HTTPXResponseTooLarge(httpx2.ReadError):
    """The answer has more bytes than anybody would read."""


# The first that fits counts.
_HTTPX_ERRORS: tuple[tuple[type[HTTPError], type[httpx2.TransportError]], ...] = (
    (ConnectionFailed, httpx2.ConnectError),
    (HTTPTimeout, httpx2.ReadTimeout),
    (InvalidHTTP, httpx2.RemoteProtocolError),
    (ResponseTooLarge, HTTPXResponseTooLarge),
    (HTTPError, httpx2.ReadError),
)


class PooledTransport(httpx2.AsyncBaseTransport):
    """Keeps as many connections as there were requests at once; for one server and one event loop."""

    def __init__(self) -> None:
        self._connections = AsyncConnectionPool()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        limits, url = request.extensions.get("timeout", {}), request.url
        http_request = HTTPRequest(url.host, url.port or 80, _format_request(request, await request.aread()))
        try:
            http_response = await self._connections.exchange(
                http_request, connect_seconds=limits.get("connect"), read_seconds=limits.get("read")
            )
        except HTTPError as error:
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
